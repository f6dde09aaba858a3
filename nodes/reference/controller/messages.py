"""What brokers, controllers and administrators ask the active controller, and its answers. Values, which a network may carry as they are.
Those of brokers and controllers are in broker_messages.py, those of clients in client_messages.py.

`wire.py` maps each to Kafka's messages (kio), or to the seeds' own (`schema.py`):

    here                        Kafka's API, key, versions           who asks
    BrokerRegistrationRequest   BrokerRegistration 62, 0-1           a broker that starts, until it has an epoch
    BrokerHeartbeatRequest      KIP-631's BrokerHeartbeat (1050, 0)  a registered broker, every broker.heartbeat.interval.ms
    UnregisterBrokerRequest     UnregisterBroker 64, 0               an administrator
    AlterPartitionRequest       AlterPartition 56, 0-3               a leader; version 0 is KIP-497's AlterIsr
    AllocateProducerIdsRequest  AllocateProducerIds 67, 0            a broker that runs out of producer ids
    ControllerHeartbeatRequest  KIP-631's ControllerHeartbeat (1051, 0)                               a standby controller
    CreateTopicsRequest         CreateTopics 19, 2-7                 clients, passed on by a broker, as all below
    DeleteTopicsRequest         DeleteTopics 20, 1-6
    CreatePartitionsRequest     CreatePartitions 37, 0-3
    AlterConfigsRequest         AlterConfigs 33, 0-2
    IncrementalAlterConfigsRequest  IncrementalAlterConfigs 44, 0-1
    ElectLeadersRequest         ElectLeaders 43, 0-2
    UpdateFeaturesRequest       UpdateFeatures 57, 0-1

The contract, for a broker:

- Whoever is not the active controller answers every request with error NOT_CONTROLLER in the place where that API has its error; in those
  without a common one, for each of their topics or resources.
- An answer comes when what it says is committed. If leadership is lost before that, the answer is NOT_CONTROLLER, and what was asked
  may happen or not. Everything may be asked again: repeating is answered as Kafka answers it (INVALID_UPDATE_VERSION,
  TOPIC_ALREADY_EXISTS ...).
- A broker registers with a new `incarnation_id` in each of its lives, and gets the offset of its registration as its epoch. It may leave
  the FENCED state when a heartbeat's answer says ACTIVE, and it must go back when one says FENCED, when its lease ends, or at
  STALE_BROKER_EPOCH (another process has its id) and BROKER_ID_NOT_REGISTERED; after those two it has to register again. A
  process that has lost its id to another one is refused with DUPLICATE_BROKER_REGISTRATION until that one has been silent for a session.
- Lease times are milliseconds of the broker's own monotonic clock: it says when the heartbeat was sent, it is told when the lease ends.
"""

from __future__ import annotations

from nodes.reference.controller.broker_messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    ControllerHeartbeatRequest,
    ControllerHeartbeatResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from nodes.reference.controller.client_messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

Request = (
    BrokerRegistrationRequest
    | BrokerHeartbeatRequest
    | UnregisterBrokerRequest
    | AlterPartitionRequest
    | AllocateProducerIdsRequest
    | ControllerHeartbeatRequest
    | CreateTopicsRequest
    | DeleteTopicsRequest
    | CreatePartitionsRequest
    | AlterConfigsRequest
    | IncrementalAlterConfigsRequest
    | ElectLeadersRequest
    | UpdateFeaturesRequest
)
Response = (
    BrokerRegistrationResponse
    | BrokerHeartbeatResponse
    | UnregisterBrokerResponse
    | AlterPartitionResponse
    | AllocateProducerIdsResponse
    | ControllerHeartbeatResponse
    | CreateTopicsResponse
    | DeleteTopicsResponse
    | CreatePartitionsResponse
    | AlterConfigsResponse
    | ElectLeadersResponse
    | UpdateFeaturesResponse
)
