"""`krash spec schema` and `krash spec show`, and the table of settings that docs/spec.md is generated from."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from harness import plugins
from harness.plugins import Group
from harness.spec import Spec
from harness.spec_file import load_spec, parse_setting

OTHER_WORKLOADS = ("groups", "transactions")  # beside `log`


def schema() -> dict[str, Any]:
    """JSON schema of a spec, the settings of krash's own workloads included. Where several have a setting, it is described as of `log`."""
    whole = _schema_with(("log", *OTHER_WORKLOADS))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **whole}


def _schema_with(workloads: Sequence[str]) -> dict[str, Any]:
    whole = Spec.model_json_schema()
    section = whole["$defs"]["WorkloadSection"]
    for name in workloads:
        settings = _settings(name)
        section["properties"] |= {
            setting: described
            for setting, described in settings["properties"].items()
            if setting not in section["properties"]
        }
        whole["$defs"] |= settings.get("$defs", {})
    return whole


def _settings(workload: str) -> dict[str, Any]:
    described: dict[str, Any] = plugins.load(Group.WORKLOADS, workload).Settings.model_json_schema()
    return described


def show_schema() -> int:
    print(json.dumps(schema(), indent=2))
    return 0


def show_spec(spec: Path | None, settings: tuple[str, ...]) -> int:
    filled = load_spec(spec, settings=dict(parse_setting(text) for text in settings))
    YAML(typ="safe", pure=True).dump(filled.model_dump(mode="json", by_alias=True), sys.stdout)
    return 0


def as_yaml(spec: Spec) -> str:
    text = StringIO()
    YAML(typ="safe", pure=True).dump(spec.model_dump(mode="json", by_alias=True), text)
    return text.getvalue()


_HEAD = ("| setting | default | meaning |", "|---|---|---|")


def settings_table() -> Iterator[str]:
    """Markdown rows `| setting | default | meaning |` for every setting of a spec, in order, with those of the `log` workload."""
    whole = _schema_with(("log",))
    yield from _HEAD
    yield from _rows(whole, whole, "", {})


def workload_table(workload: str) -> Iterator[str]:
    """The same for the settings of another workload that `log` does not have, or has with another default."""
    known, own = _settings("log")["properties"], _settings(workload)
    differing = {name: one for name, one in own["properties"].items() if not _alike(one, known.get(name, {}))}
    yield from _HEAD
    yield from _rows(own, {**own, "properties": differing}, "workload.", {})


def _alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(one.get(key) == other.get(key) for key in ("default", "description"))


def without(workload: str) -> list[str]:
    """Settings of `log` that another workload does not have."""
    return [name for name in _settings("log")["properties"] if name not in _settings(workload)["properties"]]


def _rows(whole: dict[str, Any], model: dict[str, Any], prefix: str, told: dict[int, str]) -> Iterator[str]:
    """What was told before (`told`: model -> its setting) is referred to: `until` has what `when` has, and triggers combine triggers."""
    told[id(model)] = prefix.rstrip(".[]")
    for name, setting in model.get("properties", {}).items():
        default = json.dumps(setting["default"]) if "default" in setting else ""
        models = list(_models(whole, setting))
        before = [told[id(found)] for found, _ in models if id(found) in told]
        shown = "" if models else f"`{default}`" if default else "required" if name in model.get("required", []) else ""
        meaning = "; as ".join([setting.get("description", ""), *(f"`{path}`" for path in before)])
        yield f"| `{prefix}{name}` | {shown} | {meaning} |"
        for found, many in models:
            if id(found) not in told:
                yield from _rows(whole, found, f"{prefix}{name}{'[]' if many else ''}.", told)


def _models(whole: dict[str, Any], setting: dict[str, Any]) -> Iterator[tuple[dict[str, Any], bool]]:
    """The object models a setting may hold, each with whether it is a list of them."""
    many = setting.get("type") == "array"
    options = [setting, *setting.get("anyOf", []), *setting.get("allOf", [])]
    if isinstance(setting.get("items"), dict):
        options += [setting["items"], *setting["items"].get("anyOf", [])]
    for option in options:
        reference = option.get("$ref", "")
        if reference.startswith("#/$defs/"):
            found = whole["$defs"][reference.removeprefix("#/$defs/")]
            if "properties" in found:
                yield found, many
