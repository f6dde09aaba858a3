"""The coordinators of one broker: groups and transactions, over the partitions of their internal topics that it leads.

coordinators = Coordinators(environment, broker.services, settings, protections)
coordinators.add_handlers(broker.handlers, without_id=producer_ids.init_producer_id)
await coordinators.run()                  # ticks, until cancelled

FindCoordinator ──> finder.py            who leads the key's partition
JoinGroup, ...  ──> groups/handlers ─┐
OffsetCommit    ──> offset_handlers ─┼──> shard.py ──> core (pure) ──> Write, Answer, SendMarkers ──> shard.py
EndTxn, ...     ──> transactions/ ───┘
"""

from __future__ import annotations

from typing import Final

from nodes.reference.coordinator.finder import CoordinatorFinder
from nodes.reference.coordinator.groups.core import GroupCoordinator
from nodes.reference.coordinator.groups.handlers import GroupHandlers
from nodes.reference.coordinator.groups.offset_handlers import OffsetHandlers
from nodes.reference.coordinator.partitioning import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from nodes.reference.coordinator.settings import CoordinatorSettings
from nodes.reference.coordinator.shard import Shards
from nodes.reference.coordinator.transactions.core import TransactionCoordinator
from nodes.reference.coordinator.transactions.handlers import Handle, TransactionHandlers
from nodes.reference.environment import MILLISECOND, Environment
from nodes.reference.protections import ALL_ON, Protections
from nodes.reference.server.handlers import Api, Handlers
from nodes.reference.server.services import Services

TICK: Final = 50 * MILLISECOND


class Coordinators:
    def __init__(
        self,
        environment: Environment,
        services: Services,
        settings: CoordinatorSettings,
        protections: Protections = ALL_ON,
    ) -> None:
        clock, random = environment.clock, environment.random
        self._clock = clock
        self._services = services
        self.groups: Shards[GroupCoordinator] = Shards(
            GROUPS_TOPIC,
            services,
            clock,
            lambda epoch: GroupCoordinator(
                settings.groups, protections, lambda: f"{random.getrandbits(128):032x}", clock.wall
            ),
            clock.now,
        )
        self.transactions: Shards[TransactionCoordinator] = Shards(
            TRANSACTIONS_TOPIC,
            services,
            clock,
            lambda epoch: TransactionCoordinator(settings.transactions, protections, coordinator_epoch=epoch),
            clock.wall,
        )
        services.watch_markers(GROUPS_TOPIC, self._transaction_ended)

    def add_handlers(self, handlers: Handlers, *, without_id: Handle) -> None:
        """without_id: serves InitProducerId of producers that are only idempotent."""
        services, clock = self._services, self._clock
        groups, offsets = GroupHandlers(self.groups), OffsetHandlers(self.groups, services, clock)
        transactions = TransactionHandlers(self.transactions, services, clock, without_id)
        self.transactions.send_markers = transactions.send_markers
        handlers.add(Api.FIND_COORDINATOR, 0, 4, CoordinatorFinder(services).find_coordinator)
        handlers.add(Api.JOIN_GROUP, 0, 9, groups.join_group)
        handlers.add(Api.SYNC_GROUP, 0, 5, groups.sync_group)
        handlers.add(Api.HEARTBEAT, 0, 4, groups.heartbeat)
        handlers.add(Api.LEAVE_GROUP, 0, 5, groups.leave_group)
        handlers.add(Api.DESCRIBE_GROUPS, 0, 5, groups.describe_groups)
        handlers.add(Api.LIST_GROUPS, 0, 5, groups.list_groups)
        handlers.add(Api.DELETE_GROUPS, 0, 2, groups.delete_groups)
        handlers.add(Api.OFFSET_COMMIT, 2, 8, offsets.offset_commit)
        handlers.add(Api.OFFSET_FETCH, 1, 8, offsets.offset_fetch)
        handlers.add(Api.OFFSET_DELETE, 0, 0, offsets.offset_delete)
        handlers.add(Api.TXN_OFFSET_COMMIT, 0, 3, offsets.txn_offset_commit)
        handlers.add(Api.INIT_PRODUCER_ID, 0, 4, transactions.init_producer_id)
        handlers.add(Api.ADD_PARTITIONS_TO_TXN, 0, 4, transactions.add_partitions_to_txn)
        handlers.add(Api.ADD_OFFSETS_TO_TXN, 0, 3, transactions.add_offsets_to_txn)
        handlers.add(Api.END_TXN, 0, 3, transactions.end_txn)
        handlers.add(Api.DESCRIBE_TRANSACTIONS, 0, 0, transactions.describe_transactions)
        handlers.add(Api.LIST_TRANSACTIONS, 0, 1, transactions.list_transactions)

    async def run(self) -> None:
        try:
            while True:
                self.groups.tick()
                self.transactions.tick()
                await self._clock.sleep_until(self._clock.now() + TICK)
        finally:
            self.groups.close()
            self.transactions.close()

    def _transaction_ended(self, partition: int, producer_id: int, committed: bool) -> None:
        """A marker in `__consumer_offsets`: what the transaction commits for groups counts from now on."""
        shard = self.groups.of_partition(partition)
        if shard is not None:
            shard.tell(lambda core: core.transaction_ended(producer_id, commit=committed))
