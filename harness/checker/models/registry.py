"""Models by name, and which of them a history looks like when nobody names one.

A line of the table is enough to add a model; its module is imported when it is needed. More than one may fit (a set of
unique elements is judged by `set` as linearizable, by `set-full` by Jepsen's rules): then the user has to say which.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from harness.checker.models.model import Model
from harness.history.formats.pairing import Paired

MODELS: Mapping[str, tuple[str, str]] = {
    "register": ("register", "REGISTER"),
    "cas-register": ("register", "CAS_REGISTER"),
    "kv": ("kv", "KV"),
    "set": ("sets", "SET"),
    "counter": ("counter", "COUNTER"),
    "queue": ("queue", "QUEUE"),
    "mutex": ("mutex", "MUTEX"),
    "log": ("log", "LOG"),
    "contiguous-log": ("log", "CONTIGUOUS_LOG"),
    "epoch": ("epoch", "EPOCH"),
    "list-append": ("transactions", "LIST_APPEND"),
    "rw-register": ("transactions", "RW_REGISTER"),
    "kafka": ("kafka", "KAFKA"),
    "set-full": ("jepsen_rules", "SET_FULL"),
    "final-set": ("jepsen_rules", "FINAL_SET"),
    "total-queue": ("jepsen_rules", "TOTAL_QUEUE"),
    "unique-ids": ("jepsen_rules", "UNIQUE_IDS"),
    "counter-bounds": ("jepsen_rules", "COUNTER_BOUNDS"),
    "bank": ("jepsen_rules", "BANK"),
    "long-fork": ("jepsen_rules", "LONG_FORK"),
    "comments": ("jepsen_orders", "COMMENTS"),
    "sequential": ("jepsen_orders", "SEQUENTIAL"),
}  # name -> (module of this package, its constant)
_TOOLS = ("knossos-", "jepsen-", "elle-")  # as elle-cli prefixes the same names
_ASKS = {
    "set": "every read is what the set held at one moment (linearizable)",
    "set-full": "Jepsen's rule: no element is lost for good, reads may be stale",
    "register": "linearizable reads and writes of one value",
    "kv": "linearizable puts and gets of one value per key",
    "long-fork": "Jepsen's rule: of two reads one saw whatever the other saw",
    "rw-register": "transactions are strictly serializable, or what --consistency-models says",
    "counter": "every read is the sum at one moment (linearizable)",
    "queue": "first in, first out (linearizable)",
    "total-queue": "Jepsen's rule: what goes in comes out, in any order",
}  # where more than one may fit: what each asks
_JEPSENS_OWN = {"jepsen-set": "final-set", "jepsen-counter": "counter-bounds"}  # where ours ask for linearizability
_YIELDS = {"long-fork": {"list-append", "rw-register"}}  # fits what these judge as well; theirs is the wider question


class NoModel(ValueError):
    """No model, or more than one; the message says which could be named."""


def plain_name(name: str) -> str:
    """`knossos-cas-register` is `cas-register`: elle-cli's names do as well. NoModel."""
    without_tool = next((name.removeprefix(tool) for tool in _TOOLS if name.startswith(tool)), name)
    plain = _JEPSENS_OWN.get(name, without_tool)
    if plain not in MODELS:
        raise NoModel(f"there is no model {name!r}; there are {', '.join(MODELS)}")
    return plain


@cache
def model_named(name: str) -> Model:
    """NoModel."""
    module, constant = MODELS[plain_name(name)]
    model: Model = getattr(import_module(f"harness.checker.models.{module}"), constant)
    return model


def model_for(history: Paired) -> Model:
    """The one that fits. NoModel."""
    fits = [model for model in map(model_named, MODELS) if model.fits(history)]
    names = {model.name for model in fits}
    fitting = [model for model in fits if not _YIELDS.get(model.name, set()) & names]
    if len(fitting) == 1:
        return fitting[0]
    functions = ", ".join(sorted({operation.f for operation in history.operations})[:10])
    if not fitting:
        known = ", ".join(MODELS)
        raise NoModel(f"no model fits ops that are {functions}; name one with --model: {known}")
    candidates = "; or ".join(f"--model {model.name}" + _asks(model.name) for model in fitting)
    raise NoModel(f"ops that are {functions} may be judged by more than one model, name yours: {candidates}")


def _asks(name: str) -> str:
    return f" ({_ASKS[name]})" if name in _ASKS else ""
