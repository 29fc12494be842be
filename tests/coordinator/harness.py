"""Drives a coordinator in tests: a virtual clock, a log in memory, and replies by ticket."""

import itertools

from kgm.coordinator.contract.outcome import Millis, Producer, Request, Ticket
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.coordinator.engine import Coordinator
from kgm.coordinator.runtime import AppendError, Runtime
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kgm.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.protocol.messages.list_groups_request import ListGroupsRequest
from kgm.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kgm.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kgm.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kgm.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kgm.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kgm.protocol.subscription import Subscription, encode_subscription
from kgm.records.record import encode_record

SESSION_MS = 10_000
REBALANCE_MS = 60_000


def subscription(*topics):
    return encode_subscription(Subscription(topics=topics or ("orders",), version=0))


def read_entry(entry):
    """(record or None, producer or None, commit) of a log entry: (record, producer) or, for a marker, (producer,
    commit)."""
    return (None, *entry) if isinstance(entry[0], Producer) else (*entry, None)


def compacted(log):
    """The log as Kafka's cleaner may leave it: before the first record of a transaction that is still open, only the
    last record of each key, and no records of aborted transactions."""
    entries = [read_entry(entry) for entry in log]
    verdicts, last, ends = [None] * len(entries), {}, {}
    for n in range(len(entries) - 1, -1, -1):
        record, producer, commit = entries[n]
        if record is None:
            ends[producer] = commit
        else:
            verdicts[n] = True if producer is None else ends.get(producer)
    clean = next(
        (n for n, (record, _, _) in enumerate(entries) if record is not None and verdicts[n] is None), len(log)
    )
    for n in range(clean):
        if verdicts[n]:
            last[encode_record(entries[n][0])[0]] = n
    kept = set(last.values())
    return [entry for n, entry in enumerate(log) if n >= clean or n in kept or entries[n][0] is None]


class Ids:
    """Predictable member ids: prefix-1, prefix-2, …"""

    def __init__(self):
        self.counter = itertools.count(1)

    def __call__(self, prefix):
        return f"{prefix}-{next(self.counter)}"


class Harness:
    """One coordinator, its log, its clock. Requests return their ticket; `got` returns the reply to a ticket."""

    def __init__(self, *, topics=None, **overrides):
        self.ids = Ids()
        self.settings = BrokerSettings(**overrides)
        self.engine = Coordinator(settings=self.settings, new_member_id=self.ids, topics=topics)
        self.runtime = Runtime(self.engine, append=self.append)
        self.log = []
        # What was appended: batches, their records, and the records with their producers between markers.
        self.batches = []
        self.entries = []
        self.now = Millis(1_000_000)
        self.tickets = itertools.count(1)
        self.sent = []
        self.replies = {}
        self.fail_with = None

    # -- plumbing

    def append(self, records, producer=None):
        if self.fail_with is not None:
            failure = self.fail_with
            raise AppendError(failure) if isinstance(failure, ErrorCode) else failure
        self.batches.append(tuple(records))
        self.log.extend(records)
        self.entries.extend((record, producer) for record in records)

    def take(self, replies):
        for reply in replies:
            assert reply.ticket not in self.replies, f"ticket {reply.ticket} was answered twice"
            self.replies[reply.ticket] = reply.message

    def send(self, message, version, *, client_id="client", client_host="/127.0.0.1"):
        ticket = Ticket(next(self.tickets))
        self.sent.append(ticket)
        request = Request(message=message, version=version, client_id=client_id, client_host=client_host)
        self.take(self.runtime.handle(request, ticket=ticket, now=self.now))
        return ticket

    def sleep(self, ms):
        self.now = Millis(self.now + ms)
        self.take(self.runtime.advance(self.now))

    def got(self, ticket):
        return self.replies.get(ticket)

    def reload(self, records=None, **overrides):
        """A new coordinator that has loaded this one's log."""
        other = self.another(**overrides)
        other.ids = self.ids
        other.engine._dispatcher.new_member_id = self.ids
        other.now = self.now
        other.entries = list(self.entries) if records is None else [(record, None) for record in records]
        for record, producer, commit in map(read_entry, other.entries):
            if record is None:
                other.engine.replay_end_transaction(*producer, commit=commit)
            else:
                other.engine.replay(record, producer)
        other.take(other.runtime.loaded(now=self.now))
        return other

    def another(self, **overrides):
        return Harness(**overrides)

    def state(self, group="g"):
        view = self.engine.group(group)
        return None if view is None else view.state

    def generation(self, group="g"):
        return self.engine.group(group).generation

    def member_ids(self, group="g"):
        return [member.member_id for member in self.engine.group(group).members]

    # -- requests

    def join(
        self, member="", instance=None, *, group="g", v=5, protocols=None, protocol_type="consumer",
        session=SESSION_MS, rebalance=REBALANCE_MS, client_id="client",
    ):  # fmt: skip
        offered = {"range": subscription()} if protocols is None else protocols
        return self.send(
            JoinGroupRequest(
                group_id=group,
                session_timeout_ms=session,
                rebalance_timeout_ms=rebalance,
                member_id=member,
                group_instance_id=instance,
                protocol_type=protocol_type,
                protocols=[JoinGroupRequestProtocol(name=n, metadata=m) for n, m in offered.items()],
            ),
            v,
            client_id=client_id,
        )

    def sync(
        self, member, generation, assignments=None, instance=None, *, group="g", v=5, protocol_type="consumer",
        protocol_name="range",
    ):  # fmt: skip
        return self.send(
            SyncGroupRequest(
                group_id=group,
                generation_id=generation,
                member_id=member,
                group_instance_id=instance,
                protocol_type=protocol_type,
                protocol_name=protocol_name,
                assignments=[
                    SyncGroupRequestAssignment(member_id=m, assignment=a) for m, a in (assignments or {}).items()
                ],
            ),
            v,
        )

    def heartbeat(self, member, generation, instance=None, *, group="g", v=4):
        message = HeartbeatRequest(
            group_id=group, generation_id=generation, member_id=member, group_instance_id=instance
        )
        return self.got(self.send(message, v)).error_code

    def leave(self, *identities, group="g", v=5):
        """Identities are (member id, group instance id)."""
        members = [MemberIdentity(member_id=m, group_instance_id=i) for m, i in identities]
        if v < 3:
            return self.got(self.send(LeaveGroupRequest(group_id=group, member_id=identities[0][0]), v))
        return self.got(self.send(LeaveGroupRequest(group_id=group, members=members), v))

    def commit(
        self, member="", generation=-1, instance=None, *, group="g", v=9, topic="orders", partition=0, offset=42,
        metadata="", retention=-1,
    ):  # fmt: skip
        reply = self.got(
            self.send(
                OffsetCommitRequest(
                    group_id=group,
                    generation_id_or_member_epoch=generation,
                    member_id=member,
                    group_instance_id=instance,
                    retention_time_ms=retention,
                    topics=[
                        OffsetCommitRequestTopic(
                            name=topic,
                            partitions=[
                                OffsetCommitRequestPartition(
                                    partition_index=partition, committed_offset=offset, committed_metadata=metadata
                                )
                            ],
                        )
                    ],
                ),
                v,
            )
        )
        return reply.topics[0].partitions[0].error_code

    def commit_in_transaction(
        self, producer, member="", generation=-1, instance=None, *, group="g", v=5, topic="orders", partition=0,
        offset=42, metadata="",
    ):  # fmt: skip
        """Returns the partition's error."""
        row = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=metadata
        )
        message = TxnOffsetCommitRequest(
            transactional_id="t",
            group_id=group,
            producer_id=producer[0],
            producer_epoch=producer[1],
            generation_id=generation,
            member_id=member,
            group_instance_id=instance,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[row])],
        )
        return self.got(self.send(message, v)).topics[0].partitions[0].error_code

    def end_transaction(self, producer, *, commit):
        """Append the marker to the log."""
        self.entries.append((Producer(*producer), commit))
        self.engine.replay_end_transaction(*producer, commit=commit)

    def fetch_stable(self, partition=0, *, group="g", topic="orders", v=9):
        """(error, offset) of a partition, when only stable offsets are requested."""
        wanted = [OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])]
        asked = [OffsetFetchRequestGroup(group_id=group, topics=wanted)]
        reply = self.got(self.send(OffsetFetchRequest(groups=asked, require_stable=True), v))
        row = reply.groups[0].topics[0].partitions[0]
        return row.error_code, row.committed_offset

    def fetch(self, *, group="g", topics=None, v=9):
        """Offsets by (topic, partition); topics None: all."""
        wanted = None
        if topics is not None:
            wanted = [OffsetFetchRequestTopics(name=t, partition_indexes=list(p)) for t, p in topics.items()]
        reply = self.got(
            self.send(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=wanted)]), v)
        )
        return {
            (topic.name, row.partition_index): row.committed_offset
            for topic in reply.groups[0].topics
            for row in topic.partitions
        }

    def delete_offset(self, topic="orders", partition=0, *, group="g"):
        """(top-level error, the partition's error)"""
        reply = self.got(
            self.send(
                OffsetDeleteRequest(
                    group_id=group,
                    topics=[
                        OffsetDeleteRequestTopic(
                            name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=partition)]
                        )
                    ],
                ),
                0,
            )
        )
        return reply.error_code, reply.topics[0].partitions[0].error_code if reply.topics else None

    def describe(self, *groups, v=6, operations=False):
        message = DescribeGroupsRequest(groups=list(groups or ("g",)), include_authorized_operations=operations)
        return self.got(self.send(message, v)).groups

    def list(self, states=(), types=(), v=5):
        message = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        return self.got(self.send(message, v)).groups

    def delete(self, *groups, v=2):
        return {
            row.group_id: row.error_code
            for row in self.got(self.send(DeleteGroupsRequest(groups_names=list(groups)), v)).results
        }

    # -- sequences of requests

    def joined(self, ticket):
        reply = self.got(ticket)
        assert reply is not None, "still parked"
        assert reply.error_code == ErrorCode.NONE
        return reply

    def until_answered(self, *tickets):
        """Let time pass, timer by timer, until these tickets are answered; returns the replies."""
        while any(self.got(ticket) is None for ticket in tickets):
            self.sleep(self.runtime.next_deadline() - self.now)
        return [self.got(ticket) for ticket in tickets]

    def completing(self, *instances, dynamic=0, **how):
        """Make members in CompletingRebalance, first by instance id and then the dynamic ones; returned in order of
        joining."""
        tickets = [self.join("", i, **how) for i in instances] + [self.join(v=3, **how) for _ in range(dynamic)]
        ids = [reply.member_id for reply in self.until_answered(*tickets)]
        assert self.state(how.get("group", "g")) == "CompletingRebalance"
        return ids

    def stable(self, *instances, dynamic=0, group="g", protocols=None, session=SESSION_MS, rebalance=REBALANCE_MS, v=5):
        """A Stable group of static members (by instance id) and of dynamic ones, made in one join phase.

        Returns the member ids in order of joining. Each member's assignment is its instance id, or else its member
        id."""
        how = {"group": group, "protocols": protocols, "session": session, "rebalance": rebalance, "v": v}
        tickets = [self.join("", instance, **how) for instance in instances]
        for _ in range(dynamic):
            member = self.got(self.join("", **how)).member_id
            tickets.append(self.join(member, **how))
        replies = self.until_answered(*tickets)
        ids = [reply.member_id for reply in replies]
        generation = replies[0].generation_id
        assignments = {m: name.encode() for m, name in zip(ids, (*instances, *ids[len(instances) :]), strict=True)}
        for member in reversed(ids):
            leads = member == replies[0].leader
            self.sync(
                member, generation, assignments if leads else None, group=group, protocol_name=replies[0].protocol_name
            )
        assert self.state(group) == "Stable"
        return ids

    def assignments(self, group="g"):
        return {m.member_id: m.assignment for m in self.engine.group(group).members}
