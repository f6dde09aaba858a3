import random

from workloads.generators import BLOCK, Pace, PartitionChoices


class Counting(random.Random):
    draws = 0

    def choices(self, *args, **kwargs):
        self.draws += 1
        return super().choices(*args, **kwargs)


def test_the_same_seed_gives_the_same_partitions_however_they_are_taken():
    one, other = PartitionChoices(random.Random(7), 5), PartitionChoices(random.Random(7), 5)
    at_once = one.take(3000)
    bit_by_bit = [choice for size in (1, 999, 24, 1976) for choice in other.take(size)]
    assert at_once == bit_by_bit
    assert set(at_once) == set(range(5))


def test_choices_are_drawn_in_blocks():
    stream = Counting(7)
    choices = PartitionChoices(stream, 5)
    for _ in range(BLOCK + 1):
        choices.take(1)
    assert stream.draws == 2


def test_records_fall_due_at_the_rate():
    pace = Pace(100, start_s=0)
    assert pace.due(0.005, limit=50) == 0
    assert pace.due(0.1, limit=50) == 10
    pace.sent(10)
    assert pace.due(0.1, limit=50) == 0
    assert round(pace.wait_s(0.1), 6) == 0.01


def test_a_limit_leaves_the_rest_due():
    pace = Pace(100, start_s=0)
    assert pace.due(0.5, limit=20) == 20
    pace.sent(20)
    assert pace.due(0.5, limit=50) == 30


def test_the_loop_is_open_but_catches_up_on_no_more_than_a_second():
    pace = Pace(100, start_s=0)
    assert pace.due(60, limit=100_000) == 100
    pace.sent(100)
    assert pace.due(60, limit=100_000) == 0
    assert pace.due(60.5, limit=100_000) == 50


def test_a_slow_rate_still_sends():
    pace = Pace(0.1, start_s=0)
    assert pace.due(9, limit=5) == 0
    assert pace.due(10, limit=5) == 1


def test_without_a_rate_everything_is_due():
    pace = Pace(None, start_s=0)
    assert pace.due(0, limit=7) == 7
    assert pace.wait_s(0) == 0
