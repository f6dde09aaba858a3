"""Reading specs: YAML in, `Spec` out, or a `SpecError` that names every mistake with file, line, column, value and what was expected.

Flags are applied on top of the file before validation (`--set nemesis.mix.interval=4s`), so that a mistake in either is told the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedBase
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from harness import plugins
from harness.plugins import Group, PluginError
from harness.spec import Spec

Location = tuple[str | int, ...]


@dataclass(frozen=True, kw_only=True)
class Mistake:
    file: str
    line: int | None  # from 1
    column: int | None  # from 1
    path: str  # "topics.0.partitions"
    message: str
    value: str | None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}:{self.column}"
        shown = "" if self.value is None else f" (got {self.value})"
        return f"{place}: {self.path + ': ' if self.path else ''}{self.message}{shown}"


class SpecError(Exception):
    """The spec cannot be used; `mistakes` lists all that is wrong."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = list(mistakes)
        super().__init__("\n".join(str(mistake) for mistake in mistakes))


def load_spec(path: Path | None, *, settings: Mapping[str, Any] | None = None) -> Spec:
    """The spec in a YAML file (None: all defaults) with `settings` (dotted path -> value) put on top.

    Raises SpecError for anything wrong in the file, the settings, or a section that belongs to a plug-in.
    """
    file = str(path) if path else "built-in spec"
    document = _read(path) if path else {}
    for dotted, value in (settings or {}).items():
        _put(document, dotted, value)
    try:
        spec = Spec.model_validate(_plain(document))
    except ValidationError as error:
        raise SpecError(_mistakes(error, file, document, ())) from None
    return _with_workload_settings(spec, file, document)


def parse_setting(text: str) -> tuple[str, Any]:
    """`path=value` of a `--set` flag; the value is read as YAML. Raises SpecError."""
    dotted, equals, value = text.partition("=")
    if not equals or not dotted:
        raise SpecError([_mistake("--set", "expected path=value, e.g. nemesis.mix.interval=4s", text)])
    try:
        return dotted, _plain(YAML(typ="safe").load(value))
    except YAMLError as error:
        raise SpecError([_mistake("--set", f"{dotted}: the value is not YAML: {error}", value)]) from None


def _with_workload_settings(spec: Spec, file: str, document: Any) -> Spec:
    """The workload's own settings validated and filled with its defaults."""
    try:
        workload = plugins.load(Group.WORKLOADS, spec.workload.name)
    except PluginError as error:
        raise SpecError([_placed(file, document, ("workload", "name"), str(error), spec.workload.name)]) from None
    try:
        settings: BaseModel = workload.Settings.model_validate(spec.workload.settings)
    except ValidationError as error:
        raise SpecError(_mistakes(error, file, document, ("workload",))) from None
    filled = {"name": spec.workload.name, "clients": spec.workload.clients, **settings.model_dump(mode="json")}
    return spec.model_copy(update={"workload": type(spec.workload).model_validate(filled)})


def _read(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError([_mistake(str(path), f"cannot be read: {error}", None)]) from None
    try:
        document = YAML(typ="rt").load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        place = (mark.line + 1, mark.column + 1) if mark else (None, None)
        raise SpecError(
            [
                Mistake(
                    file=str(path),
                    line=place[0],
                    column=place[1],
                    path="",
                    message=f"not YAML: {error.problem}",
                    value=None,
                )
            ]
        ) from None
    except YAMLError as error:
        raise SpecError([_mistake(str(path), f"not YAML: {error}", None)]) from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise SpecError([_mistake(str(path), "expected a mapping of settings at the top", type(document).__name__)])
    return document


def _put(document: Any, dotted: str, value: Any) -> None:
    keys = dotted.split(".")
    for index, key in enumerate(keys[:-1]):
        here: Any = int(key) if isinstance(document, list) and key.isdigit() else key
        try:
            below = document[here]
        except (KeyError, IndexError, TypeError):
            below = None
        if not isinstance(below, (dict, list)):
            if isinstance(document, list):
                raise SpecError(
                    [_mistake("--set", f"{dotted}: there is no item {here} in {'.'.join(keys[:index])}", str(value))]
                )
            below = document[here] = {}
        document = below
    last: Any = int(keys[-1]) if isinstance(document, list) and keys[-1].isdigit() else keys[-1]
    try:
        document[last] = value
    except (IndexError, TypeError):
        raise SpecError([_mistake("--set", f"{dotted}: there is no such item", str(value))]) from None


def _plain(value: Any) -> Any:
    """ruamel's containers and scalars as Python's own, so that nothing of YAML leaks into a Spec."""
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return value


def _mistakes(error: ValidationError, file: str, document: Any, above: Location) -> list[Mistake]:
    return [
        _placed(file, document, above + tuple(item["loc"]), _expected(item), _shown(item.get("input")))
        for item in error.errors(include_url=False)
    ]


def _expected(item: Any) -> str:
    if item["type"] == "extra_forbidden":
        return "unknown setting; `krash spec schema` lists what there is"
    return str(item["msg"]).removeprefix("Value error, ")


def _shown(value: Any) -> str | None:
    if value is None or isinstance(value, (dict, list, BaseModel)):
        return None
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _placed(file: str, document: Any, path: Location, message: str, value: str | None) -> Mistake:
    line = column = None
    steps: list[str] = []
    for key in path:
        position = _position(document, key)
        if position is None:
            continue  # a part of the location that is pydantic's own, such as the name of a union member
        line, column = position
        steps.append(str(key))
        document = document[key]
    return Mistake(
        file=file, line=line, column=column, path=".".join(steps or map(str, path)), message=message, value=value
    )


def _position(container: Any, key: str | int) -> tuple[int, int] | None:
    if isinstance(container, dict) and key not in container:
        return None
    if isinstance(container, list) and not (isinstance(key, int) and key < len(container)):
        return None
    if not isinstance(container, CommentedBase):
        return None
    data = container.lc.data or {}
    if key not in data:
        return None
    where = data[key]
    return where[0] + 1, where[1] + 1


def _mistake(file: str, message: str, value: str | None) -> Mistake:
    return Mistake(file=file, line=None, column=None, path="", message=message, value=value)
