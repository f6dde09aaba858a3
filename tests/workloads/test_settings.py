import pytest
from pydantic import ValidationError

from workloads.settings import GroupSettings, Settings, TransactionSettings


def test_the_defaults_are_safe():
    settings = Settings()
    assert (settings.acks, settings.idempotence) == ("all", True)


@pytest.mark.parametrize("settings", [Settings, GroupSettings, TransactionSettings])
def test_every_setting_has_a_description_and_a_default(settings):
    settings()
    for name, field in settings.model_fields.items():
        assert field.description, name
        assert not field.is_required(), name


def test_unknown_settings_are_refused():
    with pytest.raises(ValidationError, match="producer_count"):
        Settings(producer_count=3)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"acks": "1"}, "idempotence needs acks: all, and acks is 1"),
        ({"acks": 0}, "idempotence needs acks: all, and acks is 0"),
        ({"retries": 0}, "idempotence is about retries"),
        ({"requests_in_flight": 6}, "at most 5 requests in flight"),
        ({"producers": 0, "consumers": 0}, "nothing to do"),
        ({"linger_ms": 5000, "delivery_timeout_ms": 5000}, "time out while they linger"),
        ({"request_timeout_ms": 9000, "socket_timeout_ms": 6000}, "hang up before"),
        ({"request_timeout_ms": 100, "socket_timeout_ms": 300}, "has to be 1200 or more"),
        ({"producer_config": {"acks": "1"}}, "producer_config may not set acks: use `acks`"),
        ({"consumer_config": {"auto.offset.reset": "latest"}}, "positions never move silently"),
        ({"acks": "2"}, "acks"),
        ({"in_flight": 0}, "in_flight"),
        ({"consumer_mode": "push"}, "consumer_mode"),
    ],
)
def test_nonsense_is_refused_with_a_reason(given, complaint):
    with pytest.raises(ValidationError, match=complaint):
        Settings(**given)


@pytest.mark.parametrize(("given", "meant"), [(1, "1"), (0, "0"), (-1, "all"), ("-1", "all"), ("all", "all")])
def test_acks_may_be_given_as_a_number(given, meant):
    assert Settings(acks=given, idempotence=False).acks == meant


@pytest.mark.parametrize(
    ("settings", "given", "complaint"),
    [
        (GroupSettings, {"stay_ms": [900, 100]}, "900 is more than 100"),
        (GroupSettings, {"assignor": "sticky"}, "assignor"),
        (GroupSettings, {"consumer_config": {"enable.auto.commit": True}}, "records what it commits"),
        (GroupSettings, {"acks": "1"}, "idempotence needs acks: all"),
        (TransactionSettings, {"acks": "1"}, "acks"),
        (TransactionSettings, {"idempotence": False}, "idempotence"),
        (TransactionSettings, {"aborts": 1.1}, "aborts"),
        (TransactionSettings, {"delivery_timeout_ms": 20_000}, "may not be more than transaction_timeout_ms"),
        (TransactionSettings, {"requests_in_flight": 6}, "at most 5 requests in flight"),
        (TransactionSettings, {"consumer_config": {"enable.auto.commit": True}}, "records what it commits"),
        (TransactionSettings, {"producer_config": {"transaction.timeout.ms": 1}}, "use `transaction_timeout_ms`"),
    ],
)
def test_other_workloads_refuse_nonsense_too(settings, given, complaint):
    with pytest.raises(ValidationError, match=complaint):
        settings(**given)
