"""Requests of a static member, and a group that is stable, for brokers without sockets."""

from kgm.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kgm.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kgm.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment


def join(instance="i", *, group="g", member="", session_ms=10_000):
    return JoinGroupRequest(
        group_id=group,
        member_id=member,
        group_instance_id=instance,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=20_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0")],
    )


def lead(driver, joined):
    """The leader's SyncGroup."""
    assignments = [SyncGroupRequestAssignment(member_id=m.member_id, assignment=b"x") for m in joined.members]
    request = SyncGroupRequest(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id="i",
        protocol_type="consumer",
        protocol_name="range",
        assignments=assignments,
    )
    return driver.ask(request)


def stable(driver):
    joined = driver.send(join())
    driver.advance(0)
    joined = driver.answer(joined)
    assert lead(driver, joined).assignment == b"x"
    return joined


def commit(group, *, partition=0, offset=5, **topic):
    row = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata="m")
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(partitions=[row], **topic)],
    )
