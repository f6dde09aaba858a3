"""The `nemesis:` section: three forms, and errors that say what was expected."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from nemesis.durations import parse_seconds as seconds
from nemesis.settings import NemesisSettings, from_names


def test_names_of_the_command_line_are_a_mix_with_defaults() -> None:
    settings = from_names("kill, partition-bridge,pause")
    assert settings.mix is not None
    assert [(choice.fault, choice.settings) for choice in settings.mix.faults] == [
        ("kill", {}),
        ("partition", {"shape": "bridge"}),
        ("pause", {}),
    ]
    assert settings.safe
    assert from_names("none") == from_names("") == NemesisSettings()


def test_durations_are_read_in_the_usual_units() -> None:
    assert [seconds(text) for text in ("8s", "500ms", "2m", "1h", "1.5", 3)] == [8, 0.5, 120, 3600, 1.5, 3]


def test_what_was_read_can_be_written_and_read_again() -> None:
    settings = NemesisSettings.model_validate(
        {
            "safe": False,
            "script": [
                {"at": "5s", "fault": "kill", "target": "followers of log-0", "as": "followers", "until": {"after": 1}},
                {
                    "when": {"after": "followers", "isr_of": "log-0", "is": ["b1"]},
                    "fault": "wipe",
                    "keep_meta": True,
                    "for": "1m",
                },
            ],
        }
    )
    for by_alias in (True, False):
        assert NemesisSettings.model_validate(settings.model_dump(mode="json", by_alias=by_alias)) == settings
    only_set = settings.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert NemesisSettings.model_validate(only_set) == settings
    assert only_set["script"][1]["keep_meta"] is True
    assert settings.steps[1].settings == {"keep_meta": True}
    assert settings.steps[1].for_ == 60


WRONG: list[tuple[dict[str, Any], str, str]] = [
    (
        {"mix": {"faults": ["kil"]}},
        "mix.faults.0",
        "'kil' is no fault; there are cut-rpc, .*kill, .*partition, pause, power-loss",
    ),
    ({"mix": {"faults": ["partition-half"]}}, "mix.faults.0", "partition-halves"),
    ({"mix": {"faults": []}}, "mix.faults", "at least 1"),
    ({"mix": {"faults": ["kill"], "duration": ["6s", "2s"]}}, "mix", r"duration is \[shortest, longest\]"),
    ({"mix": {"faults": ["kill"], "interval": "soon"}}, "mix.interval", "expected a duration such as 60s.*'soon'"),
    ({"mix": {"faults": ["kill"], "intervall": 3}}, "mix.intervall", "Extra inputs"),
    ({"mix": {"faults": [{"fault": "kill", "force": 1}]}}, "mix.faults.0", "kill has no setting 'force'; it has none"),
    ({"mix": {"faults": [{"fault": "wipe", "keep": 1}]}}, "mix.faults.0", "it has keep_meta, keep_directory_id"),
    ({"mix": {"faults": [{"fault": "partition", "action": "lose"}]}}, "mix.faults.0", "'drop' or 'reset'"),
    ({"mix": {"faults": [{"fault": "kill", "target": "leader"}]}}, "mix.faults.0", None or ""),
    ({"once": {"fault": "kill", "target": "the boss", "at": 1}}, "once", "a target is one of: a node's name"),
    ({"once": {"fault": "kill"}}, "once", "either `at`"),
    ({"once": {"fault": "kill", "at": 1, "when": {"after": 0}}}, "once", "either `at`"),
    ({"script": [{"fault": "kill", "when": {"is": 1}}]}, "script.0.when", "belong together"),
    (
        {"script": [{"fault": "kill", "when": {}}]},
        "script.0.when",
        "there are after, healed, leader_changed, isr_of, is,",
    ),
    ({"script": [{"fault": "kill", "when": {"leader_changed": "log"}}]}, "script.0.when", "TOPIC-NUMBER"),
    ({"script": [{"fault": "kill", "when": {"after": "x"}}]}, "", "step 0 waits for step 'x'; there are 0 to 0"),
    ({"script": [], "mix": {"faults": ["kill"]}}, "", "one of mix, script and once"),
]


@pytest.mark.parametrize(("given", "where", "said"), WRONG)
def test_what_is_wrong_is_named_with_its_place(given: dict[str, Any], where: str, said: str) -> None:
    if given == {"mix": {"faults": [{"fault": "kill", "target": "leader"}]}}:
        NemesisSettings.model_validate(given)  # "leader" may be a node's name: the plan knows which there are
        return
    with pytest.raises(ValidationError, match=said) as caught:
        NemesisSettings.model_validate(given)
    assert where in [".".join(map(str, error["loc"])) for error in caught.value.errors()]


def test_the_section_has_a_json_schema_for_editors() -> None:
    schema = NemesisSettings.model_json_schema()
    assert "for" in schema["$defs"]["Step"]["properties"]
