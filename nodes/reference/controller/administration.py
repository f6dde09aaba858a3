"""What else brokers and administrators ask for: elections, producer ids, feature levels."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from nodes.reference.controller import elections
from nodes.reference.controller.broker_messages import (
    OK,
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from nodes.reference.controller.brokers import epoch_error
from nodes.reference.controller.client_messages import (
    Election,
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
    FeatureUpdate,
    NamedError,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    UpgradeType,
)
from nodes.reference.controller.draft import Draft
from nodes.reference.metadata import features
from nodes.reference.metadata.entities import PartitionId
from nodes.reference.metadata.schema import FeatureLevelRecord, ProducerIdsRecord
from nodes.reference.partition.view import NO_LEADER


def elect_leaders(draft: Draft, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """KIP-183 (preferred), KIP-460 (unclean: for partitions without a leader only, whatever their topic allows)."""
    everything = request.partitions is None
    asked = request.partitions
    if asked is None:
        asked = tuple((topic.name, number) for topic in draft.image.topics.values() for number in topic.partitions)
    outcomes = tuple(_elect(draft, request.election, topic, number) for topic, number in asked)
    if everything:
        outcomes = tuple(outcome for outcome in outcomes if outcome.error is not ErrorCode.election_not_needed)
    return ElectLeadersResponse(error=OK, partitions=outcomes)


def _elect(draft: Draft, election: ElectionType, topic: str, number: int) -> Election:
    known = draft.image.topic(topic)
    partition = known.partitions.get(number) if known else None
    if known is None or partition is None:
        error = ErrorCode.unknown_topic_or_partition
        return Election(topic=topic, index=number, error=error, message=f"there is no partition {topic}-{number}")
    id, preferred = PartitionId(known.id, number), partition.replicas[0]
    if election is ElectionType.PREFERRED:
        if partition.leader == preferred:
            return Election(topic=topic, index=number, error=ErrorCode.election_not_needed)
        if preferred not in partition.isr or not draft.image.active(preferred):
            error = ErrorCode.preferred_leader_not_available
            return Election(topic=topic, index=number, error=error, message=f"broker {preferred} cannot lead")
        elections.change(draft, id, mode=elections.Mode.PREFERRED)
        return Election(topic=topic, index=number, error=OK)
    if partition.leader != NO_LEADER:
        return Election(topic=topic, index=number, error=ErrorCode.election_not_needed)
    elections.change(draft, id, mode=elections.Mode.UNCLEAN)
    changed = draft.image.partition(id)
    if changed is None or changed.leader == NO_LEADER:
        error = ErrorCode.eligible_leaders_not_available
        return Election(topic=topic, index=number, error=error, message="no replica is active")
    return Election(topic=topic, index=number, error=OK)


def allocate_producer_ids(draft: Draft, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
    """KIP-730: a block of ids that nobody else gets."""
    error = epoch_error(draft, request.broker_id, request.broker_epoch)
    if error is not OK:
        return AllocateProducerIdsResponse(error=error)
    start, count = draft.image.next_producer_id, draft.moment.settings.producer_ids
    draft.write(
        ProducerIdsRecord(
            broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=start + count
        )
    )
    return AllocateProducerIdsResponse(error=OK, start=start, count=count)


def update_features(draft: Draft, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """KIP-584: all of the levels, or none of them."""
    trial = draft.trial()
    outcomes = tuple(_update(trial, update) for update in request.updates)
    wrong = next((outcome for outcome in outcomes if outcome.error is not OK), None)
    if wrong is not None:
        return UpdateFeaturesResponse(error=wrong.error, message=wrong.message, features=outcomes)
    if not request.validate_only:
        for record in trial.records:
            draft.write(record)
    return UpdateFeaturesResponse(error=OK, features=outcomes)


def _update(draft: Draft, update: FeatureUpdate) -> NamedError:
    complaint = _complaint(draft, update)
    if complaint is not None:
        return NamedError(name=update.name, error=ErrorCode.invalid_update_version, message=complaint)
    if update.level != draft.image.features.get(update.name):
        draft.write(FeatureLevelRecord(name=update.name, feature_level=update.level))
    return NamedError(name=update.name, error=OK)


def _complaint(draft: Draft, update: FeatureUpdate) -> str | None:
    if update.name != features.METADATA_VERSION:
        return f"there is no feature {update.name}"
    if update.level not in features.LEVELS:
        return f"{update.name} {update.level}: controllers support {features.OLDEST} to {features.LATEST}"
    for broker in draft.image.brokers.values():
        ranges = {feature.name: feature for feature in broker.features}
        supported = ranges.get(update.name)
        if supported is None or not supported.min_supported_version <= update.level <= supported.max_supported_version:
            return f"{update.name} {update.level}: broker {broker.id} does not support it"
    present = draft.image.metadata_version
    if update.level >= present:
        return None
    if update.upgrade is UpgradeType.UPGRADE:
        return f"{update.name} is {present}; {update.level} would be a downgrade, which must be asked for as such"
    if update.upgrade is UpgradeType.SAFE_DOWNGRADE and features.written(update.level) != features.written(present):
        return f"from {present} to {update.level} metadata would be lost: only an unsafe downgrade does that"
    return None
