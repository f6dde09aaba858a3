"""The heal journal: written before, read after whatever happened."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nemesis.journal import BadJournal, HealJournal, pending, replay_undo
from nodes.network import Cut
from nodes.node import Gone, Paused, Running
from tests.nemesis.fake import FakeCluster, topology


def test_what_was_not_healed_is_pending_last_first(tmp_path: Path) -> None:
    journal = HealJournal(tmp_path / "journal" / "heal.jsonl")
    assert pending(journal.path) == []
    journal.begin(0, [{"do": "heal-cuts", "ids": ["fault-0"]}])
    journal.begin(1, [{"do": "resume", "node": "b1"}, {"do": "start", "node": "b1"}])
    journal.begin(2, [{"do": "start", "node": "b2"}])
    journal.end(1)
    assert pending(journal.path) == [{"do": "start", "node": "b2"}, {"do": "heal-cuts", "ids": ["fault-0"]}]


def test_a_torn_last_line_was_never_acted_on(tmp_path: Path) -> None:
    journal = HealJournal(tmp_path / "heal.jsonl")
    journal.begin(0, [{"do": "resume", "node": "b1"}])
    with journal.path.open("a") as file:
        file.write('{"fault": 1, "undo": [{"do": "re')
    assert pending(journal.path) == [{"do": "resume", "node": "b1"}]


def test_a_foreign_line_is_named_with_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "heal.jsonl"
    path.write_text('{"fault": 0, "healed": true}\nhello\n')
    with pytest.raises(BadJournal, match=r"heal.jsonl:2: no entry of a heal journal"):
        pending(path)


def test_undoing_heals_resumes_and_starts_and_says_what_it_could_not() -> None:
    async def scenario() -> None:
        on = FakeCluster(topology())
        await on.network.cut([Cut(id="fault-0", at="b1", sources=("b2",)), Cut(id="mine", at="b1", sources=("b2",))])
        await on.pause("b2")
        await on.kill("b3")
        entries = [
            {"do": "heal-cuts", "ids": ["fault-0"]},
            {"do": "resume", "node": "b2"},
            {"do": "resume", "node": "b9"},
            {"do": "start", "node": "b3"},
            {"do": "dance"},
        ]
        left = await replay_undo(entries, on.network, on.nodes)
        assert [cut.id for cut in on.network.cuts] == ["mine"]
        assert on.nodes["b2"].process == Running()
        assert on.nodes["b3"].process == Gone(-9)
        assert len(left) == 3
        assert "b3 stays down" in left[1]
        assert await replay_undo(entries[3:4], on.network, on.nodes, on.start) == []
        assert on.nodes["b3"].process == Running()
        assert Paused() not in [node.process for node in on.nodes.values()]

    asyncio.run(scenario())
