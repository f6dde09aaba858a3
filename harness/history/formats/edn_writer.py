"""Values as EDN, the inverse of `edn`: `read_all(write(value)) == [value]`.

dict {:a 1}, tuple and list [1 2], frozenset and set #{1 2}, str "a", Keyword :a; the rest as the table in `edn` says.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from harness.history.formats.edn_values import Character, Keyword, Symbol, Tagged

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"})
_CHARACTERS = {"\n": "newline", "\r": "return", " ": "space", "\t": "tab", "\f": "formfeed", "\b": "backspace"}


def write(value: Any) -> str:
    """One line of EDN, however long. TypeError for what EDN has no form for."""
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPES)}"'
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Keyword):
        return f":{value.name}"
    if isinstance(value, (tuple, list)):
        return f"[{_joined(value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{write(key)} {write(item)}' for key, item in value.items())}}}"
    if isinstance(value, (set, frozenset)):
        return f"#{{{' '.join(sorted(map(write, value)))}}}"  # the same text every time
    return _rare(value)


def _rare(value: Any) -> str:
    if isinstance(value, float):
        if math.isfinite(value):
            return repr(value)
        return "##NaN" if math.isnan(value) else "##Inf" if value > 0 else "##-Inf"
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    if isinstance(value, Decimal):
        return f"{value}M"
    if isinstance(value, Symbol):
        return value.name
    if isinstance(value, Character):
        return "\\" + _CHARACTERS.get(
            value.character, f"u{ord(value.character):04x}" if value.character.isspace() else value.character
        )
    if isinstance(value, Tagged):
        return f"#{value.tag} {write(value.value)}"
    raise TypeError(f"EDN has no form for {type(value).__name__}")


def _joined(values: Iterable[Any]) -> str:
    return " ".join(map(write, values))
