"""Every protection of the reference cluster with the simulated run that shows what it is for, and the anomaly that has to come of it.

Stated before anything is run: with the protection off the checker finds `anomaly`, with it on nothing at all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from harness.simulated.cluster import Topic
from harness.simulated.cluster_defects import CLUSTER_DEFECTS
from harness.simulated.defect import (
    ANYTHING,
    KILLS,
    LAG_AND_KILLS,
    POWER,
    QUICK,
    SAFE_TOPIC,
    TWO_KILLS,
    Defect,
    log,
    transactions,
)
from harness.simulated.group_defects import GROUP_DEFECTS, HEALTHY_GROUPS
from nodes.reference.environment import MILLISECOND
from nodes.reference.protections import Protection

HEALTHY: Final = (
    replace(log(ANYTHING), name="healthy-log"),
    replace(transactions(ANYTHING), name="healthy-transactions"),
    *HEALTHY_GROUPS,
)

DEFECTS: Final = (
    Defect(
        protection=Protection.REPLICATE_BEFORE_ACKNOWLEDGE,
        anomaly="lost-write",
        plan=replace(log(LAG_AND_KILLS, session=900 * MILLISECOND), producer=QUICK),
    ),
    Defect(protection=Protection.APPEND_BEFORE_ACKNOWLEDGE, anomaly="lost-write", plan=log(KILLS)),
    Defect(protection=Protection.UNCLEAN_ELECTION_DISABLED, anomaly="lost-write", plan=log(TWO_KILLS, Topic())),
    Defect(protection=Protection.FSYNC_ON_PRODUCE, anomaly="lost-write", plan=log(POWER, SAFE_TOPIC, flush_messages=1)),
    Defect(protection=Protection.STABLE_OFFSET, anomaly="aborted-read", plan=transactions(KILLS)),
    Defect(  # what was aborted and never got its marker is committed by its producer's next transaction
        protection=Protection.MARKERS_TO_ALL_PARTITIONS, anomaly="aborted-read", plan=transactions(KILLS)
    ),
    Defect(  # a zombie's end counts for the transaction of whoever has the id now
        protection=Protection.PRODUCER_EPOCH_AT_COORDINATOR, anomaly="torn-transaction", plan=transactions(KILLS)
    ),
    *CLUSTER_DEFECTS,
    *GROUP_DEFECTS,
)
