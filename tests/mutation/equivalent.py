"""Survivors that decide what the original decides, each with the reason. Names are those of docs/mutation.jsonl."""

from __future__ import annotations

_PRUNING = "prunes less: more is looked at, the verdict is the same"
_CHAINS = "says where to look for something as good; a pair that is not found costs time, never a verdict"
_BUDGET = "a budget"
_WARM = "of a history that is judged only so that the kernels are compiled"
_NEGATIVE = "any negative number means none"

EQUIVALENT: dict[str, str] = {
    # linearizability
    "b819099c30ba": _CHAINS,
    "e5b54dcb1840": _CHAINS,
    "b5734a0e9e89": _CHAINS,
    "3e9eeb2c0ed0": _CHAINS,
    "ed76ba1e062b": "nobody stands at the slot of a hole, or it would be none",
    "3ad1d1e6987f": "nobody stands at the slot of a hole, or it would be none",
    "f191928d93ce": _BUDGET,
    "253fe4b54207": "a fourth column that nobody uses",
    "d61207e8afc4": "one slot more is in use",
    "ed6206210f90": _PRUNING,
    "f1abe257283f": _PRUNING,
    "16cf161cecd0": _PRUNING,
    "b3c8eb069e51": _PRUNING,
    "26db2ed24a70": "at the limit both are the number of rows",
    "1d704460f705": "fills a place that is never taken, where nothing is paired",
    "a1210a72d4bb": _NEGATIVE,
    "1c83b5024ed5": "two rounds more, in which nothing would be left",
    "269fb406289c": "the root's symbol is 0, and no element's number is less",
    "652d08195edb": "the root, number 0, is nobody's child",
    "8da065886304": "by table or by search, a value is found",
    "c9cfeb39c405": "read only where something else was written before",
    "042821cf0637": "somebody saw whatever happened, and evidence has each row once anyway",
    "b4580c4be140": "only the order of positions counts",
    # glance
    "2f00ede04fb0": "a number that stands for none, and that no row has",
    "802220390237": "pairs are told apart as well",
    "0704900ec452": "nobody holds a table to what its schema says of nulls",
    "2b25fbd41e47": "both rows are one client's",
    "13f37456a1b5": "no two records that were read are of one moment and one position",
    # models
    "0ba63d76a05c": "rows are of one length",
    "ebaea7b92ab1": _BUDGET,
    "e349007ed02b": _WARM,
    "58b4644086d9": _WARM,
    # serializability
    "84608a2dd536": "a search for which nothing is left finds nothing",
    "baa416336b86": "two is true, too",
    "420da6e6c806": "the same pairs through a barrier",
    "d6928091b6e6": "nobody asks what an edge out of a barrier is about",
    "b686c1ec4fe7": "only the order of times counts",
    "14cc9172e292": _NEGATIVE,
    "d0ca4a0c70a2": "some edges twice",
    # relational
    "8fce9ee9b9d5": "which of several final reads of one offset the sentence tells of",
}
