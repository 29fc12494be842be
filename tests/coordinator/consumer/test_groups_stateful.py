"""Whatever members, operators, topics, clocks and disks do to a consumer group (KIP-848), these hold.

E1: the assignment epoch is never ahead of the group's, a member's never ahead of the assignment's, and none goes back.
E2: no partition is had by two, and what is known of who has it is so.
E3: a target gives each partition that is subscribed to to one subscriber of it.
E4: a member in the epoch of the target has nothing that the target gives to another.
E5: a group is Stable when all members are at the target and nobody has anything to give up.
E6: a static member that goes away for a while costs nothing and gets back what it had; it costs an epoch when its
session ends.
E7: an instance id that is in use is refused to others, and nothing happens.
E8: KIP-1251: offsets of a partition are taken from a member in its epoch, and in one before if it had the partition.
E9: when everybody goes on, the group comes to rest, and all that is subscribed to is had by somebody.
E10: a dynamic member that has not heard the answer to its joining and asks again gets the same one, and nothing happens.
(A static one is refused there, as in Kafka: apache/kafka#23542.)
And what the log makes is the same group, at every point."""

from collections import Counter

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kgm.coordinator.contract.outcome import TimerKey, TimerKind
from kgm.coordinator.engine import Coordinator
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.consumer_member import AWAY
from kgm.model.errors import ErrorCode as E
from kgm.records.member_states import MemberState
from kgm.records.record import decode_record, encode_record
from tests.coordinator.consumer.harness import Consumers, assigned
from tests.coordinator.consumer.harness import topic_id as id_of
from tests.selection import is_usual_seed, sized

GROUP = "g"
INSTANCES = ["i", "j"]
#: Who comes and wants nothing is left out: Kafka may give it what it does not want
#: (test_b107_who_comes_and_wants_nothing_is_taken_for_one_of_the_others).
WANTED = [("a",), ("a", "b"), ("b",), ("a", "b", "c"), ("nowhere",)]
SESSION_MS = 45_000
ROUNDS = 12


class Watched(Consumers):
    """A harness whose watcher looks after every request and after every pause."""

    watcher = None

    def id_of(self, name):
        return self.engine.image.by_name[name].topic_id

    def send(self, *args, **kwargs):
        ticket = super().send(*args, **kwargs)
        if self.watcher is not None:
            self.watcher()
        return ticket

    def sleep(self, ms):
        super().sleep(ms)
        if self.watcher is not None:
            self.watcher()


class Members(RuleBasedStateMachine):
    """One group. What members know is what they were told; now and then they are late to say that they gave up."""

    REGEXES = (None,)

    def __init__(self):
        super().__init__()
        self.h = None
        self.made = 0
        self.epochs = (0, {})
        self.targets = (None, None)
        # Since which epoch each member has each partition, found out from outside.
        self.since, self.seats = {}, {}
        #: The most partitions that a topic has had.
        self.sizes = {}

    @initialize(
        interval=st.sampled_from([0, 0, 1_000]),
        assignors=st.sampled_from(["uniform,range", "range,uniform"]),
        instances=st.sampled_from([[], ["i"], ["i", "j"]]),
        dynamic=st.integers(0, 2),
    )
    def a_group_may_be_there(self, interval, assignors, instances, dynamic):
        self.h = Watched(
            topics={"a": 3, "b": 2},
            group_consumer_assignment_interval_ms=interval,
            group_consumer_assignors=assignors,
        )
        self.h.watcher = self.watch
        for instance in (*instances, *[None] * dynamic):
            self.h.beat(self.new_id(), instance=instance)
        for _ in range(3):
            self.h.sleep(interval)
            self.everybody_goes_on()

    # -- what is there

    @property
    def group(self):
        return self.h.engine._state.groups.get(GROUP)

    @property
    def members(self):
        return {} if self.group is None else self.group.members

    def new_id(self):
        self.made += 1
        return f"m{self.made}"

    def some(self, data, *, away=False):
        """A member; one that is not away, or one that is. What is due by now happens before."""
        self.h.sleep(0)
        rows = [m for m in self.members.values() if (m.member_epoch == AWAY) == away]
        return data.draw(st.sampled_from(rows)) if rows else None

    def names(self, held):
        """Partitions by topic name, in the form of `beat`; of topics that are no more by nothing."""
        by_id = self.h.engine.image.by_id
        return {by_id[topic_id].name: sorted(those) for topic_id, those in held.items() if topic_id in by_id}

    def watch(self):
        """Since when members have what they have."""
        now = {}
        ids = {m.group_instance_id: m.member_id for m in self.members.values() if m.group_instance_id}
        for member in self.members.values():
            before = self.since.get(member.member_id)
            if before is None and member.group_instance_id is not None:
                before = self.since.get(self.seats.get(member.group_instance_id))
            away = member.member_epoch == AWAY
            held = [(t, p) for rows in (member.assigned, member.pending_revocation) for t in rows for p in rows[t]]
            now[member.member_id] = {at: 0 if away else (before or {}).get(at, member.member_epoch) for at in held}
        self.since, self.seats = now, ids

    # -- what members do

    @rule(
        wanted=st.sampled_from(WANTED),
        instance=st.sampled_from([None, *INSTANCES]),
        again=st.booleans(),
        data=st.data(),
    )
    def somebody_starts(self, wanted, instance, again, data):
        if len(self.members) >= 4:
            return
        self.h.sleep(0)
        seat = None if self.group is None else self.group.static_member(instance)
        regex = data.draw(st.sampled_from(self.REGEXES))
        before, member_id = self.snapshot(), self.new_id()
        how = {"names": list(wanted), "regex": regex, "instance": instance}
        reply = self.h.beat(member_id, **how)
        if seat is not None and seat.member_epoch != AWAY:
            self.e7_an_instance_id_in_use_is_refused(before, reply)
            return
        assert reply.error_code == E.NONE
        # (Expressions may be resolved in between.)
        if seat is None and instance is None and again and not self.group.regexes:
            self.e10_who_asks_again_gets_the_same_answer(member_id, how, reply)

    def e7_an_instance_id_in_use_is_refused(self, before, reply):
        assert reply.error_code == E.UNRELEASED_INSTANCE_ID
        assert self.snapshot() == before

    def e10_who_asks_again_gets_the_same_answer(self, member_id, how, reply):
        before, _ = self.snapshot()
        again = self.h.beat(member_id, **how)
        assert (again.error_code, again.member_epoch, assigned(again)) == (E.NONE, reply.member_epoch, assigned(reply))
        # (The log is told once more what a member has that waits for others: its previous epoch is another one.)
        assert self.snapshot()[0] == before

    def snapshot(self):
        """All that is to be seen of the group, and how long its log is."""
        return self.h.group(GROUP) and (self.h.epochs(GROUP), self.h.held(GROUP)), len(self.h.log)

    @rule(data=st.data(), how=st.sampled_from(["gave up", "gave up", "not yet", "nothing", "lost the answer"]))
    def a_member_goes_on(self, data, how):
        member = self.some(data)
        if member is not None:
            self.go_on(member, how)

    def go_on(self, member, how="gave up"):
        epoch, owned = member.member_epoch, self.names(member.assigned)
        if how == "not yet":
            owned = self.names({t: [*member.assigned.get(t, ()), *member.pending_revocation.get(t, ())]
                                for t in {*member.assigned, *member.pending_revocation}})  # fmt: skip
        elif how == "nothing":
            owned = None
        elif how == "lost the answer":
            epoch = member.previous_member_epoch if member.previous_member_epoch > 0 else epoch
        reply = self.h.beat(member.member_id, epoch, instance=member.group_instance_id, owned=owned)
        assert reply.error_code in (E.NONE, E.UNKNOWN_MEMBER_ID if self.h.fail_with else E.NONE)

    def everybody_goes_on(self):
        for member_id in [*self.members]:
            member = self.members.get(member_id)
            if member is not None and member.member_epoch != AWAY:
                self.go_on(member)

    @rule()
    def a_round_passes(self):
        self.h.sleep(5_000)
        self.everybody_goes_on()

    @rule(data=st.data(), wanted=st.sampled_from([*WANTED, ()]))
    def a_member_wants_other_topics(self, data, wanted):
        member = self.some(data)
        if member is not None:
            regex = data.draw(st.sampled_from(self.REGEXES))
            self.h.beat(
                member.member_id, member.member_epoch, instance=member.group_instance_id, names=list(wanted), regex=regex,
                owned=data.draw(st.sampled_from([None, self.names(member.assigned), {}])),
            )  # fmt: skip

    @rule(data=st.data())
    def a_member_leaves(self, data):
        member = self.some(data)
        if member is not None:
            epoch = self.group.group_epoch
            self.h.beat(member.member_id, -1, instance=member.group_instance_id)
            assert self.group.group_epoch == epoch + 1

    @rule(data=st.data())
    def a_static_member_goes_away(self, data):
        member = self.some(data)
        if member is None or member.group_instance_id is None:
            return
        before, session = self.group.copy(), self.h.deadline(TimerKind.SESSION, member.member_id)
        self.h.beat(member.member_id, AWAY, instance=member.group_instance_id)
        self.e6_going_away_costs_nothing(before, member, session)

    def e6_going_away_costs_nothing(self, before, member, session):
        """Not even time: the session counts from the last heartbeat on."""
        group = self.group
        assert self.h.deadline(TimerKind.SESSION, member.member_id) == session
        assert (group.group_epoch, group.assignment_epoch, group.targets) == (
            before.group_epoch, before.assignment_epoch, before.targets,
        )  # fmt: skip
        away = group.members[member.member_id]
        assert (away.member_epoch, away.pending_revocation) == (AWAY, {})
        assert self.names(away.assigned) == self.names(member.assigned)

    @rule(data=st.data(), same_id=st.booleans())
    def a_static_member_comes_back(self, data, same_id):
        member = self.some(data, away=True)
        if member is None:
            return
        before = self.group.copy()
        new_id = member.member_id if same_id else self.new_id()
        names, regex = sorted(member.subscribed_topic_names), member.subscribed_topic_regex or None
        reply = self.h.beat(new_id, names=names, regex=regex, instance=member.group_instance_id)
        self.e6_who_comes_back_gets_what_it_had(before, member, reply)

    def e6_who_comes_back_gets_what_it_had(self, before, member, reply):
        group = self.group
        assert reply.error_code == E.NONE
        assert group.static_ids[member.group_instance_id] == reply.member_id
        if before.metadata_hash == self.h.engine.image.hash_of({*before.names, *before.matched}):
            assert group.group_epoch == before.group_epoch
        if group.assignment_epoch == before.assignment_epoch:
            target = group.targets[reply.member_id]
            assert target == before.targets.get(member.member_id, {})
            topics = self.wanted_by(member)
            kept = {t: {*rows} & {*target.get(t, ())} for t, rows in self.names_by_id(member.assigned, topics).items()}
            got = {row.topic_id: {*row.partitions} for row in reply.assignment.topic_partitions}
            assert all(those <= got.get(topic_id, set()) for topic_id, those in kept.items())

    def names_by_id(self, held, topics):
        by_id = self.h.engine.image.by_id
        return {t: rows for t, rows in held.items() if t in by_id and by_id[t].name in topics}

    def wanted_by(self, member):
        topics = set(member.subscribed_topic_names)
        resolved = self.group.resolved.get(member.subscribed_topic_regex or "")
        return topics | (set(resolved.topics) if resolved else set())

    # -- what operators, topics, clocks and disks do

    @rule(data=st.data(), count=st.integers(1, 2))
    def an_operator_removes(self, data, count):
        self.h.sleep(0)
        if not self.members:
            return
        rows = data.draw(st.lists(st.sampled_from([*self.members.values()]), min_size=count, max_size=count))
        epoch = self.group.group_epoch
        reply = self.h.leave(*(
            ("", row.group_instance_id) if row.group_instance_id else (row.member_id, None) for row in rows
        ))  # fmt: skip
        assert {row.error_code for row in reply.members} == {E.NONE}
        assert self.group.group_epoch == epoch + 1
        assert not {row.member_id for row in rows} & self.members.keys()

    @rule(partitions=st.sampled_from([{"a": 3, "b": 2}, {"a": 4, "b": 2}, {"a": 3}, {"a": 1, "b": 5, "c": 1}]),
          turn=st.integers(0, 1))  # fmt: skip
    def topics_change(self, partitions, turn):
        """A topic may go, or be another one of the same name; it never has fewer partitions than before."""
        self.sizes |= {topic.topic_id: topic.partitions for topic in self.h.engine.image.by_id.values()}
        self.h.topics(
            {name: max(size, self.sizes.get(id_of(name, turn), 0)) for name, size in partitions.items()}, turn=turn
        )

    @rule(ms=st.sampled_from([1, 1_000, 20_000, 45_000, 60_000]))
    def time_passes(self, ms):
        self.h.sleep(0)
        epoch, before = self.group and self.group.group_epoch, {*self.members}
        due = {
            key.member_id
            for key, at in self.h.engine.deadlines.items()
            if at <= self.h.now + ms and key.kind in (TimerKind.SESSION, TimerKind.REBALANCE)
        }
        self.h.sleep(ms)
        self.e6_a_session_that_ends_costs_an_epoch(epoch, before, due)

    def e6_a_session_that_ends_costs_an_epoch(self, epoch, before, due):
        """One for each member that is gone; each is an event of its own."""
        assert before - self.members.keys() == due
        if self.group is not None:
            assert self.group.group_epoch == epoch + len(due)

    @rule(data=st.data(), epoch=st.integers(-1, 1), back=st.integers(0, 3), topic=st.sampled_from(["a", "b"]),
          partition=st.integers(0, 2), offset=st.integers(0, 99))  # fmt: skip
    def somebody_commits(self, data, epoch, back, topic, partition, offset):
        member = self.some(data)
        known = self.h.engine.image.by_name.get(topic)
        if member is None or known is None:
            return
        epoch = member.member_epoch + (epoch if back == 0 else -back)
        before = dict(self.h.engine.offsets.of(GROUP))
        error = self.h.commit(member.member_id, epoch, topic=topic, partition=partition, offset=offset)
        self.e8_offsets_are_taken_from_who_has_the_partition(member, epoch, (known.topic_id, partition), error)
        assert error == E.NONE or dict(self.h.engine.offsets.of(GROUP)) == before

    def e8_offsets_are_taken_from_who_has_the_partition(self, member, epoch, at, error):
        since = self.since[member.member_id].get(at)
        may = epoch == member.member_epoch or (epoch < member.member_epoch and since is not None and since <= epoch)
        assert error == (E.NONE if may else E.STALE_MEMBER_EPOCH)

    @rule()
    def the_disk_fails_for_a_while(self):
        """What cannot be written has not happened."""
        self.h.sleep(0)
        if self.group is None:
            return
        before = self.group.copy()
        self.h.fail_with = E.NOT_ENOUGH_REPLICAS
        self.h.beat("unwritten", names=["a"])
        self.h.fail_with = None
        assert same(self.group, before)

    @rule()
    def the_coordinator_moves(self):
        watcher, since = self.h.watcher, self.since
        log, topics = self.h.log, self.h.engine.image
        settings_ = {name: getattr(self.h.settings, name) for name in (
            "group_consumer_assignment_interval_ms", "group_consumer_assignors")}  # fmt: skip
        other = Watched(**settings_)
        other.use(topics)
        for record in log:
            other.engine.replay(decode_record(*encode_record(record)))
        other.log, other.entries, other.now = list(log), list(self.h.entries), self.h.now
        other.tickets, other.ids = self.h.tickets, self.h.ids
        other.take(other.runtime.loaded(now=other.now))
        self.h, self.since = other, since
        self.h.watcher = watcher

    # -- what holds

    @invariant()
    def e1_epochs_are_in_order_and_only_grow(self):
        group = self.group
        if group is None:
            self.epochs = (0, {})
            return
        assert group.assignment_epoch <= group.group_epoch
        now = {m.member_id: m.member_epoch for m in group.members.values()}
        assert all(epoch <= group.assignment_epoch for epoch in now.values())
        epoch, before = self.epochs
        assert epoch <= group.group_epoch
        assert all(now[m] == AWAY or before[m] <= now[m] for m in now.keys() & before.keys())
        self.epochs = group.group_epoch, now

    @invariant()
    def e2_nobody_shares_a_partition(self):
        owners = Counter(
            (topic_id, partition)
            for member in self.members.values()
            for held in (member.assigned, member.pending_revocation)
            for topic_id, those in held.items()
            for partition in those
        )
        assert all(count == 1 for count in owners.values())
        known = {} if self.group is None else self.group.partition_epochs
        assert {(topic_id, partition) for topic_id, those in known.items() for partition in those} == owners.keys()

    @invariant()
    def e3_a_target_gives_all_that_is_wanted_to_who_wants_it(self):
        group = self.group
        if group is None or not group.members or group.assignment_epoch != group.group_epoch or group.regexes:
            return
        by_name = self.h.engine.image
        if group.metadata_hash != by_name.hash_of({*group.names, *group.matched}):
            return  # the topics have changed, and nobody has looked yet
        if group.assignment_epoch == 1:
            return  # nobody has wanted anything yet
        given = Counter()
        for member_id, target in group.targets.items():
            names = group.members[member_id].subscribed_topic_names
            for topic_id, those in target.items():
                assert by_name.by_id[topic_id].name in names
                given.update((topic_id, partition) for partition in those)
        wanted = [by_name.by_name[name] for name in group.names if name in by_name.by_name]
        assert given == Counter((topic.topic_id, p) for topic in wanted for p in range(topic.partitions))

    @invariant()
    def e4_who_is_at_the_target_has_nothing_of_others(self):
        group = self.group
        for member in self.members.values():
            if member.member_epoch != group.assignment_epoch:
                continue
            of_others = {
                (topic_id, partition)
                for other, target in group.targets.items()
                if other != member.member_id
                for topic_id, those in target.items()
                for partition in those
            }
            held = {(topic_id, partition) for topic_id, those in member.assigned.items() for partition in those}
            assert not held & of_others

    @invariant()
    def e5_stable_means_that_all_are_where_they_are_to_be(self):
        group = self.group
        if group is None:
            return
        arrived = [
            m.state is MemberState.STABLE and m.member_epoch == group.assignment_epoch for m in group.members.values()
        ]
        is_stable = bool(arrived) and all(arrived) and group.group_epoch == group.assignment_epoch
        assert (group.state == "Stable") == is_stable
        assert not is_stable or not any(m.pending_revocation for m in group.members.values())

    @invariant()
    def every_member_has_a_session_and_its_deadlines(self):
        if self.h is None:
            return
        sessions = {k.member_id: at for k, at in self.h.engine.deadlines.items() if k.kind is TimerKind.SESSION}
        assert sessions.keys() == self.members.keys()
        assert all(at <= self.h.now + SESSION_MS for at in sessions.values())
        for member in self.members.values():
            if member.state is MemberState.UNREVOKED_PARTITIONS and member.member_epoch != AWAY:
                assert TimerKey(TimerKind.REBALANCE, GROUP, member.member_id) in self.h.engine.deadlines

    @invariant()
    def the_log_makes_the_same_group(self):
        if self.h is None or self.group is None:
            return
        engine = Coordinator(new_member_id=str, image=self.h.engine.image)
        for record in self.h.log:
            engine.replay(decode_record(*encode_record(record)))
        assert same(engine._state.groups[GROUP], self.group)
        assert engine.offsets.by_group == self.h.engine.offsets.by_group

    def teardown(self):
        if self.h is not None:
            self.e9_all_ends_well()

    def e9_all_ends_well(self):
        """Who is away stays away for good; everybody else goes on, and so the group comes to rest."""
        for _ in range(2 * ROUNDS):
            self.h.sleep(5_000)
            self.everybody_goes_on()
        group = self.group
        if group is None or not group.members:
            return
        assert group.state == "Stable"
        assert all(member.member_epoch != AWAY for member in group.members.values())
        had = Counter(
            (topic_id, p) for m in group.members.values() for topic_id, those in m.assigned.items() for p in those
        )
        topics = self.h.engine.image.by_name
        wanted = {name for member in group.members.values() for name in self.wanted_by(member)} & {*topics}
        everything = {(topics[name].topic_id, p) for name in wanted for p in range(topics[name].partitions)}
        assert had == Counter(dict.fromkeys(everything, 1))


def same(one: ConsumerGroup, other: ConsumerGroup) -> bool:
    """Whether two are the same in all that is in the log."""
    soft = {"refresh", "is_shared", "_homogeneous", "order", "resolved_order", "assignors_order"}
    return all(getattr(one, name) == getattr(other, name) for name in one.__slots__ if name not in soft)


class RegexMembers(Members):
    """Some of them subscribe by regular expression, too."""

    REGEXES = (None, None, "a", "[ab]", ".*", "")


for machine in (Members, RegexMembers):
    machine.TestCase.settings = settings(
        max_examples=sized(5, 120),
        stateful_step_count=30,
        derandomize=is_usual_seed(),
        report_multiple_bugs=False,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
TestMembers = pytest.mark.slow(pytest.mark.timeout(1_800)(Members.TestCase))
TestRegexMembers = pytest.mark.slow(pytest.mark.timeout(1_800)(RegexMembers.TestCase))
