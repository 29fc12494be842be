"""The same group, whose members are consumers and whose leaders assign by a real assignor: what only then can be asked.

S3, L1: a coordinator does not look into assignments. What it owes to S3 is to tell the leader of the round what each
member subscribes to, and to hand out what that leader said, to whom it was said, in that generation and in no other.
With a leader that assigns existing partitions of subscribed topics only (here: kgm's own `range`), S3 then holds for
the subscriptions that the leader was told of (a static member that comes back with another subscription gets its old
assignment, KAFKA-12759), and L1: each partition of a subscribed topic is owned exactly once in Stable.
L2, L3: when a join phase must end, worked out from the sessions and the timer by a second, simple machine.
S6, S11 with transactions in the log; S11 for every prefix at a batch boundary, plain and compacted."""

from collections import Counter

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import initialize, invariant, rule

from kgm.assignors import assign
from kgm.assignors.contract import GroupSpec, MemberSpec, TopicSpec
from kgm.coordinator.contract.outcome import TimerKey, TimerKind
from kgm.coordinator.engine import Coordinator
from kgm.coordinator.groups.classic_state import ClassicState
from kgm.model.errors import DecodeError
from kgm.model.errors import ErrorCode as E
from kgm.protocol.messages.join_group_response import JoinGroupResponse
from kgm.protocol.subscription import MemberAssignment, decode_assignment, decode_subscription, encode_assignment
from kgm.records.record import decode_record, encode_record
from tests.coordinator.classic.test_stateful import GROUP, OFFERS, Coordination, hard
from tests.coordinator.harness import Harness, compacted, read_entry
from tests.selection import sized

TOPICS = {"orders": 3, "payments": 2}
PRODUCERS = [(1, 0), (2, 0)]


class Recorded(Harness):
    """A harness that knows what its coordinator was like after each batch."""

    def __init__(self, **overrides):
        super().__init__(**overrides)
        self.after = []

    def another(self, **overrides):
        return Recorded(**overrides)

    def append(self, records, producer=None):
        self.remember()
        super().append(records, producer)

    def remember(self):
        """The batches so far are replayed: this is what the log makes up to here."""
        while len(self.after) < len(self.entries):
            self.after.append(None)
        if self.entries:
            self.after[-1] = live(self.engine)


def live(engine):
    """(groups that are as the log has them, offsets, pending offsets): what is soft is left out."""
    groups = {
        group_id: row
        for group_id, row in hard(engine).items()
        if engine._state.groups[group_id].state in (ClassicState.STABLE, ClassicState.EMPTY)
    }
    offsets = engine.offsets.fork()
    return groups, offsets.by_group, offsets.pending


def loaded(entries):
    """What a log makes, by way of bytes."""
    engine = Coordinator(new_member_id=str)
    for record, producer, commit in map(read_entry, entries):
        if record is None:
            engine.replay_end_transaction(*producer, commit=commit)
        else:
            engine.replay(decode_record(*encode_record(record)), producer)
    return engine


def topics_of(metadata):
    try:
        return decode_subscription(metadata).topics
    except DecodeError:
        return ()


class Consumers(Coordination):
    """Each leader assigns by `range`; producers commit offsets; the log is read again and again."""

    def __init__(self):
        super().__init__()
        self.h = Recorded(group_max_size=4, group_initial_rebalance_delay_ms=1_000)
        self.plans = {}
        self.read = 0
        self.waits = {}
        self.lost = False

    @initialize(instances=st.sampled_from([[], ["a"], ["a", "b"], ["a", "b", "c"]]), dynamic=st.integers(0, 1))
    def a_group_may_be_there(self, instances, dynamic):
        for instance in instances:
            self.h.join("", instance, protocols=OFFERS[1], session=12_000, rebalance=15_000)
        for _ in range(dynamic):
            self.h.join("", v=3, protocols=OFFERS[0], session=12_000, rebalance=15_000)
        self.h.sleep(6_000)
        self.heal()

    # -- the leader

    def learn(self):
        """Leaders read their JoinGroup replies."""
        replies = list(self.h.replies.values())
        for reply in replies[self.read :]:
            if isinstance(reply, JoinGroupResponse) and reply.members and not reply.skip_assignment:
                self.plans[reply.generation_id] = self.assign(reply.members)
        self.read = len(replies)

    def assign(self, members):
        """By instance id or member id: (assignment, topics that the leader was told of)."""
        told = {m.member_id: topics_of(m.metadata) for m in members}
        spec = GroupSpec(
            members=tuple(MemberSpec(member_id=m, topics=tuple(topics)) for m, topics in told.items()),
            topics=tuple(TopicSpec(name=t, partitions=n) for t, n in TOPICS.items()),
        )
        plan = assign("range", spec)
        names = {m.member_id: m.group_instance_id or m.member_id for m in members}
        return {names[m]: (encode_assignment(MemberAssignment(partitions=given)), told[m]) for m, given in plan.items()}

    def plan(self):
        self.learn()
        plan = self.plans[self.group.generation]
        names = {m.group_instance_id or m.member_id: m.member_id for m in self.group.members.values()}
        return {names[name]: assignment for name, (assignment, _) in plan.items() if name in names}

    @rule(data=st.data())
    def somebody_syncs(self, data):
        """A leader says what it worked out; others say nothing that counts."""
        member, instance = self.member(data)
        leads = self.group and self.group.state is ClassicState.COMPLETING_REBALANCE
        plan = self.plan() if leads else {member: b"alone"}
        self.h.sync(member, self.group.generation if self.group else 0, plan, instance, v=3)

    # -- producers

    @rule(data=st.data(), producer=st.sampled_from(PRODUCERS), offset=st.integers(0, 9), late=st.booleans())
    def somebody_commits_in_a_transaction(self, data, producer, offset, late):
        """S6: who is fenced, removed or behind leaves nothing behind in a transaction either."""
        self.h.sleep(0)
        member, instance = self.member(data)
        before = live(self.h.engine)[1:]
        current = bool(self.group) and self.group.check_member(member, instance) == E.NONE
        generation = (self.group.generation if self.group else 0) - late
        error = self.h.commit_in_transaction(producer, member, generation, instance, offset=offset)
        if not current or late:
            assert error != E.NONE or (generation < 0 and self.group.state is ClassicState.EMPTY)
        assert error == E.NONE or live(self.h.engine)[1:] == before
        assert live(self.h.engine)[1] == before[0]

    @rule(producer=st.sampled_from(PRODUCERS), commit=st.booleans())
    def a_transaction_ends(self, producer, commit):
        self.h.remember()
        self.h.end_transaction(producer, commit=commit)

    @rule(offset=st.integers(0, 9))
    def an_operator_resets_an_offset(self, offset):
        self.h.commit(offset=offset)

    @rule()
    def an_operator_deletes_offsets(self):
        self.h.delete_offset()

    @rule(limit=st.sampled_from([2, 4]))
    def the_coordinator_moves(self, limit):
        if self.h.fail_with is not None:
            return
        self.learn()
        self.h.remember()
        after, lost = self.h.after, not self.in_the_log()
        super().the_coordinator_moves(limit)
        self.h.after = after
        self.lost = self.lost or lost

    # -- what holds

    @invariant()
    def s3_members_have_what_their_leader_gave_them(self):
        self.learn()
        if self.group is None or self.group.state is not ClassicState.STABLE or self.group.generation not in self.plans:
            return
        plan = self.plans[self.group.generation]
        owners, wanted = Counter(), set()
        for member in self.group.members.values():
            given, told = plan[member.group_instance_id or member.member_id]
            assert member.assignment == given
            topics = decode_assignment(member.assignment).partitions
            assert set(topics) <= set(told) & set(TOPICS)
            assert all(partition in range(TOPICS[topic]) for topic in topics for partition in topics[topic])
            owners.update((topic, partition) for topic in topics for partition in topics[topic])
            wanted |= {(topic, partition) for topic in set(told) & set(TOPICS) for partition in range(TOPICS[topic])}
        assert owners == Counter(dict.fromkeys(wanted, 1))

    @invariant()
    def l2_a_join_phase_ends_when_it_must(self):
        group = self.group
        if group is None or group.state is not ClassicState.PREPARING_REBALANCE or self.h.fail_with is not None:
            return
        if group.soft.previous_state is ClassicState.EMPTY:
            return
        end = join_phase_end(group, self.h.engine.deadlines)
        for when, over in ((end - 1, False), (end, True)):
            fork = self.h.runtime.fork()
            fork.advance(when)
            assert (fork.engine.group(GROUP).generation > group.generation) == over

    @invariant()
    def l3_nobody_waits_beyond_its_time(self):
        if self.group is None:
            return
        until = self.h.now + self.group.rebalance_timeout_ms
        self.waits = {ticket: self.waits.get(ticket, until) for ticket in waiting(self.group)}
        if self.waits:
            last = max(self.waits.values())
            assert min(self.waits.values()) > self.h.now
            fork = self.h.runtime.fork()
            fork.advance(last)
            assert not waiting(fork.engine._state.groups[GROUP]) & set(self.waits)

    def in_the_log(self):
        """Whether the last generation is: an Empty one is not, if writing it failed."""
        return self.group is None or self.group.state is not ClassicState.EMPTY or self.unbroken()

    @invariant()
    def s11_every_step_is_what_the_log_makes(self):
        self.h.remember()
        if self.in_the_log():
            groups, offsets, pending = live(loaded(self.h.entries))
            now = live(self.h.engine)
            assert (offsets, pending) == now[1:]
            assert {g: groups[g] for g in now[0]} == now[0]

    @invariant()
    def s2_nobody_shares_an_assignment(self):
        """By partition, with S3: those who get nothing get the same bytes."""

    @invariant()
    def s11_through_bytes_and_compaction(self):
        """In the end, for every prefix."""

    def teardown(self):
        try:
            self.s11_every_prefix_is_what_it_was_and_so_is_its_compaction()
        finally:
            super().teardown()

    def s11_every_prefix_is_what_it_was_and_so_is_its_compaction(self):
        for length in range(1, len(self.h.after) + 1):
            then = self.h.after[length - 1]
            if then is None or self.lost or self.h.fail_with is not None:
                continue
            for entries in (self.h.entries[:length], compacted(self.h.entries[:length])):
                groups, offsets, pending = live(loaded(entries))
                assert (offsets, pending) == then[1:]
                written = {g: row for g, row in then[0].items() if self.is_written(g, row, entries)}
                assert {g: groups.get(g) for g in written} == written

    def is_written(self, group_id, row, entries):
        """Not so: a generation that could not be logged, and a simple group whose offsets have gone."""
        generations = [
            record.value.generation
            for record, _, _ in map(read_entry, entries)
            if record is not None and record.key.group == group_id and hasattr(record.value, "generation")
        ]
        return generations[-1:] == [row[1]]


def waiting(group):
    return {parked.ticket for parked in (*group.soft.parked_joins.values(), *group.soft.parked_syncs.values())}


def join_phase_end(group, deadlines):
    """When the join phase of a group with these members and timers ends if nothing else happens.

    Sessions end, of those who are absent and of new members that wait; when after one of them nobody is absent, the
    phase ends. When its timer fires, it ends if anybody has joined; else it loses its dynamic members and is extended.
    (Who joined for good may be all there before that, if the last one absent was refused for the group's size.)"""
    members, pending, joined = dict(group.members), set(group.soft.pending_joins), set(group.soft.parked_joins)
    timer = deadlines[TimerKey(TimerKind.JOIN, GROUP)]
    sessions = {
        member_id: deadlines[TimerKey(TimerKind.SESSION, GROUP, member_id)]
        for member_id in (*members, *pending)
        if member_id not in joined or members[member_id].is_new
    }
    while True:
        if sessions and min(sessions.values()) <= timer:
            gone = min(sessions, key=sessions.get)
            ended = sessions.pop(gone)
            members.pop(gone, None)
            pending.discard(gone)
            joined.discard(gone)
            if joined == set(members) and not pending:
                return ended
            continue
        members = {m: member for m, member in members.items() if m in joined or member.group_instance_id}
        if joined or not members:
            return timer
        sessions = {m: at for m, at in sessions.items() if m in members or m in pending}
        timer += max(member.rebalance_timeout_ms for member in members.values())


Consumers.TestCase.settings = settings(
    max_examples=sized(5, 120),
    stateful_step_count=40,
    report_multiple_bugs=False,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestConsumers = pytest.mark.slow(Consumers.TestCase)
