"""The APIs of groups and their members, in all versions: requests are made the core's own, answers are made kio's."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from nodes.reference.coordinator.groups.core import GroupCoordinator
from nodes.reference.coordinator.groups.requests import (
    Described,
    Heartbeat,
    Join,
    Joined,
    JoinedMember,
    Leaving,
    Left,
    Sync,
    Synced,
)
from nodes.reference.coordinator.shard import Shard, Shards
from nodes.reference.environment import Caller
from nodes.reference.server.schema import NO_TIME, fitted, in_milliseconds, response_module

_FIRST_WITH_MEMBER_ID_REQUIRED = 4  # KIP-394
_FIRST_WITH_SKIPPED_ASSIGNMENT = 9  # KIP-814
_FIRST_WITH_SEVERAL_LEAVING = 3  # KIP-345
_FIRST_WITH_NO_PROTOCOL = 7  # KIP-559


class GroupHandlers:
    def __init__(self, shards: Shards[GroupCoordinator]) -> None:
        self._shards = shards

    async def join_group(self, caller: Caller, request: Any) -> object:
        instance_id = getattr(request, "group_instance_id", None)
        session_timeout = in_milliseconds(request.session_timeout)
        rebalance_timeout = getattr(request, "rebalance_timeout", None)
        join = Join(
            group=request.group_id,
            member_id=request.member_id,
            instance_id=instance_id,
            client_id=caller.client_id,
            client_host=f"/{caller.host}",
            session_timeout=session_timeout,
            rebalance_timeout=session_timeout if rebalance_timeout is None else in_milliseconds(rebalance_timeout),
            protocol_type=request.protocol_type,
            protocols=tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
            member_id_required=request.__version__ >= _FIRST_WITH_MEMBER_ID_REQUIRED and instance_id is None,
            may_skip_assignment=request.__version__ >= _FIRST_WITH_SKIPPED_ASSIGNMENT,
        )
        said = await self._shards.ask(join.group, lambda core, ticket, now: core.join(ticket, join, now))
        joined = Joined(said, join.member_id) if isinstance(said, ErrorCode) else said
        assert isinstance(joined, Joined)
        reply = response_module(request)
        nothing = None if request.__version__ >= _FIRST_WITH_NO_PROTOCOL else ""
        return fitted(
            reply.JoinGroupResponse,
            throttle_time=NO_TIME,
            error_code=joined.error,
            generation_id=joined.generation,
            protocol_type=joined.protocol_type,
            protocol_name=nothing if joined.protocol is None else joined.protocol,
            leader=joined.leader,
            skip_assignment=joined.skip_assignment,
            member_id=joined.member_id,
            members=tuple(_joined_member(reply, member) for member in joined.members),
        )

    async def sync_group(self, caller: Caller, request: Any) -> object:
        """While the group is being loaded, its rebalance is lost: the member has to join again."""
        sync = Sync(
            group=request.group_id,
            generation=request.generation_id,
            member_id=request.member_id,
            instance_id=getattr(request, "group_instance_id", None),
            protocol_type=getattr(request, "protocol_type", None),
            protocol=getattr(request, "protocol_name", None),
            assignments={each.member_id: each.assignment for each in request.assignments},
        )
        said = await self._shards.ask(sync.group, lambda core, ticket, now: core.sync(ticket, sync, now))
        if said is ErrorCode.coordinator_load_in_progress:
            said = ErrorCode.rebalance_in_progress
        synced = Synced(said) if isinstance(said, ErrorCode) else said
        assert isinstance(synced, Synced)
        return fitted(
            response_module(request).SyncGroupResponse,
            throttle_time=NO_TIME,
            error_code=synced.error,
            protocol_type=synced.protocol_type,
            protocol_name=synced.protocol,
            assignment=synced.assignment,
        )

    async def heartbeat(self, caller: Caller, request: Any) -> object:
        """While the group is being loaded, nobody's session ends: there is nothing wrong with a heartbeat."""
        beat = Heartbeat(
            group=request.group_id,
            generation=request.generation_id,
            member_id=request.member_id,
            instance_id=getattr(request, "group_instance_id", None),
        )
        shard = self._shards.find(beat.group)
        if isinstance(shard, Shard):
            error = shard.direct(lambda core, now: core.heartbeat(beat, now))
        else:
            error = ErrorCode.none if shard is ErrorCode.coordinator_load_in_progress else shard
        return fitted(response_module(request).HeartbeatResponse, throttle_time=NO_TIME, error_code=error)

    async def leave_group(self, caller: Caller, request: Any) -> object:
        several = request.__version__ >= _FIRST_WITH_SEVERAL_LEAVING
        members = (
            tuple(Leaving(member.member_id, member.group_instance_id) for member in request.members)
            if several
            else (Leaving(request.member_id),)
        )
        group_id = request.group_id
        said = await self._shards.ask(group_id, lambda core, ticket, now: core.leave(ticket, group_id, members, now))
        left = Left(said) if isinstance(said, ErrorCode) else said
        assert isinstance(left, Left)
        error = left.error
        if not several and error is ErrorCode.none:
            ((_, error),) = left.members
        reply = response_module(request)
        return fitted(
            reply.LeaveGroupResponse,
            throttle_time=NO_TIME,
            error_code=error,
            members=tuple(
                reply.MemberResponse(
                    member_id=member.member_id, group_instance_id=member.instance_id, error_code=member_error
                )
                for member, member_error in left.members
            )
            if several
            else (),
        )

    async def describe_groups(self, caller: Caller, request: Any) -> object:
        reply = response_module(request)
        return fitted(
            reply.DescribeGroupsResponse,
            throttle_time=NO_TIME,
            groups=tuple(self._described(reply, group_id) for group_id in request.groups),
        )

    async def list_groups(self, caller: Caller, request: Any) -> object:
        """Those that this broker coordinates. KIP-518: of some states; KIP-848: all groups here are classic."""
        reply = response_module(request)
        states = {state.lower() for state in getattr(request, "states_filter", ())}
        types = {kind.lower() for kind in getattr(request, "types_filter", ())}
        loading = any(shard.state is ErrorCode.coordinator_load_in_progress for shard in self._shards)
        groups = [
            group
            for shard in self._shards
            if shard.state is ErrorCode.none and (not types or "classic" in types)
            for group in shard.core.describe_all()
            if not states or group.state.lower() in states
        ]
        return fitted(
            reply.ListGroupsResponse,
            throttle_time=NO_TIME,
            error_code=ErrorCode.coordinator_load_in_progress if loading else ErrorCode.none,
            groups=tuple(
                fitted(
                    reply.ListedGroup,
                    group_id=group.group,
                    protocol_type=group.protocol_type,
                    group_state=group.state,
                    group_type="classic",
                )
                for group in groups
            ),
        )

    async def delete_groups(self, caller: Caller, request: Any) -> object:
        reply, results = response_module(request), []
        for group_id in request.groups_names:
            error = await self._shards.ask(group_id, lambda core, ticket, now, id=group_id: core.delete(ticket, id))  # type: ignore[misc]
            results.append(reply.DeletableGroupResult(group_id=group_id, error_code=error))
        return fitted(reply.DeleteGroupsResponse, throttle_time=NO_TIME, results=tuple(results))

    def _described(self, reply: Any, group_id: str) -> Any:
        shard = self._shards.find(group_id)
        error = ErrorCode.none if isinstance(shard, Shard) else shard
        described = shard.core.describe(group_id) if isinstance(shard, Shard) else Described(group_id, "")
        return fitted(
            reply.DescribedGroup,
            error_code=error,
            group_id=group_id,
            group_state=described.state,
            protocol_type=described.protocol_type,
            protocol_data=described.protocol,
            members=tuple(
                fitted(
                    reply.DescribedGroupMember,
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=member.metadata,
                    member_assignment=member.assignment,
                )
                for member in described.members
            ),
        )


def _joined_member(reply: Any, member: JoinedMember) -> Any:
    return fitted(
        reply.JoinGroupResponseMember,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        metadata=member.metadata,
    )
