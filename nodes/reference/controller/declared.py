"""The messages that kio does not have, by API key and version: the proposals' own, and what Kafka 4 does not speak any more.

request, response = DECLARED[ALTER_PARTITION, 0]
"""

from __future__ import annotations

from typing import Any, Final

from nodes.reference.controller import old_alter_partition, schema

DECLARED: Final[dict[tuple[int, int], tuple[Any, Any]]] = {
    (schema.BROKER_HEARTBEAT, 0): (schema.BrokerHeartbeatRequest, schema.BrokerHeartbeatResponse),
    (schema.CONTROLLER_HEARTBEAT, 0): (schema.ControllerHeartbeatRequest, schema.ControllerHeartbeatResponse),
    (schema.ALTER_PARTITION, 0): (schema.AlterIsrRequest, schema.AlterIsrResponse),
    (schema.ALTER_PARTITION, 1): (
        old_alter_partition.AlterPartitionRequest,
        old_alter_partition.AlterPartitionResponse,
    ),
}
