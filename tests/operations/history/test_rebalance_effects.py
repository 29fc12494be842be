"""What `explain` says a rebalance changed is the difference between what a description of the group showed before and
after it."""

import random

import pytest

from kgm.history.derive import derive
from kgm.history.store.tables import TablesInMemory
from kgm.model.assignment import Move
from kgm.operations.history import explain_group
from kgm.operations.history.group_rows import owners
from kgm.operations.history.rebalance_effects import RebalanceEffects
from kgm.operations.history.source import History, HistorySource
from kgm.pipeline.options import SourceKind
from tests.history.truth.consumer_lives import ConsumerLog, ConsumerWorld
from tests.history.truth.lives import GROUP
from tests.selection import sized

SESSION_MS = 45_000


def history_of(log, tmp_path, **window):
    tables = TablesInMemory(tables=derive(log.raw()).tables)
    return History(source=HistorySource(path=tmp_path, kind=SourceKind.SEGMENTS), tables=tables, **window)


def described(log, group):
    """({identity: member id}, {(topic, partition): identity}), as ConsumerGroupDescribe has it."""
    (shown,) = log.groups_described(group)
    members, places = {}, {}
    for member in shown.members:
        identity = member.instance_id or member.member_id
        members[identity] = member.member_id
        for each in member.assignment.topic_partitions:
            places |= {(each.topic_name, number): identity for number in each.partitions}
    return members, places


def differences(before, after):
    return tuple(
        Move(topic=place[0], partition=place[1], owner_before=before.get(place), owner_after=after.get(place))
        for place in sorted(before.keys() | after.keys())
        if before.get(place) != after.get(place)
    )


class Group:
    """Members that are driven one step after another; the group is described after each."""

    def __init__(self, *, commits=True):
        self.commits = commits
        self.log = ConsumerLog(topics={"a": 6}, group_consumer_session_timeout_ms=SESSION_MS)
        self.described = {0: ({}, {})}
        self.away = set()

    def settle(self, ms=1_000):
        """Let this much time pass, in which all that are not away heartbeat and commit."""
        for _ in range(max(ms // 5_000, 1)):
            self.log.sleep(min(ms, 5_000))
            present = [each for each in self.log.ids_of() if each not in self.away]
            if present:
                self.log.calm(*present)
            for name in present:
                row = self.log.member(name)
                for number in row.assigned.get("a", ()) if self.commits else ():
                    self.log.commit(
                        name, row.member_epoch, self.log.instance_of(name), group="g", topic="a", partition=number
                    )
        self.described[self.log.generation()] = described(self.log, "g")

    def join(self, name, instance=None, **more):
        self.log.beat(name, 0, instance=instance, **more)
        self.settle()

    def leave(self, name, epoch=-1):
        self.log.beat(name, epoch, instance=self.log.instance_of(name))
        if epoch == -2:
            self.away.add(name)
        self.settle()

    def crash(self, name):
        self.away.add(name)
        self.settle(SESSION_MS + 20_000)


def driven():
    group = Group()
    group.join("m0", "k-0")
    group.join("m1")
    group.join("m2", "k-2")
    group.join("m3", "k-3")
    group.leave("m1")  # a dynamic member leaves
    group.leave("m2", -2)  # a static one stops, and another process takes its place
    group.join("m4", "k-2")
    group.crash("m4")
    group.join("m5", "k-2")
    group.leave("m5", -2)  # a static one stops while another joins, and does not come back
    group.join("m6")
    group.crash("m5")
    assert group.log.leave(("", "k-3"), group="g").error_code == 0  # an admin removes one
    group.settle()
    group.leave("m6")
    group.leave("m0")
    return group


def test_each_rebalance_is_the_difference_of_two_descriptions(tmp_path):
    group = driven()
    history = history_of(group.log, tmp_path)
    rows = history.rebalances("g")
    assert [row.to_generation for row in rows] == [each for each in group.described if each]
    for row in rows:
        told = explain_group(history, "g", row.to_generation, is_advised=False)
        (members, places), (members_then, places_then) = (
            group.described[row.from_generation if row is not rows[0] else 0],
            group.described[row.to_generation],
        )
        assert told.moves == differences(places, places_then), row
        assert {(each.seat, each.kind) for each in told.changes} == {
            *((name, "joined") for name in members_then.keys() - members.keys()),
            *((name, "left") for name in members.keys() - members_then.keys()),
        }, row


def test_a_member_that_is_gone_before_it_has_what_it_was_given(tmp_path):
    """The target assignments count it as an owner, which it never was."""
    group = Group()
    for name in ("m0", "m1", "m2"):
        group.join(name)
    group.away.add("m2")
    group.leave("m1")
    group.log.beat("m2", -1)
    group.settle()
    history = history_of(group.log, tmp_path)
    *_, second, _last = history.rebalances("g")
    effects = RebalanceEffects(history, second)
    assert any(move.owner_after is None for move in effects.moves)
    assert second.moved == len(effects.moves)


def test_a_topic_has_one_name_before_and_after_the_first_commit(tmp_path):
    """Only a commit shows the name of a topic id."""
    group = Group(commits=False)
    group.join("m0")
    group.join("m1")
    history = history_of(group.log, tmp_path)
    assert {row.topic for row in owners(history, "g")} == {None}
    group.commits = True
    group.settle()
    group.leave("m1")
    history = history_of(group.log, tmp_path)
    assert {row.topic for row in owners(history, "g")} == {"a"}
    for row in history.rebalances("g")[1:]:
        expected = differences(group.described[row.from_generation][1], group.described[row.to_generation][1])
        assert RebalanceEffects(history, row).moves == expected


def test_a_rebalance_ends_with_the_next_one_though_that_is_not_asked_for(tmp_path):
    group = driven()
    history = history_of(group.log, tmp_path)
    rows = history.rebalances("g")
    part = history_of(group.log, tmp_path, until_ms=rows[4].timestamp + 1)
    assert explain_group(part, "g", is_advised=False).moves == RebalanceEffects(history, rows[4]).moves


@pytest.mark.parametrize("seed", sized(range(3), range(40)))
def test_all_rebalances_together_lead_to_what_is_described(tmp_path, seed):
    world = ConsumerWorld(seed)
    world.traffic = True  # commits show the names of topics
    world.play(0)
    stages = []
    for _ in range(12):
        action = random.Random(f"{seed} {len(stages)}").choice(
            [world.add, world.close, world.close_otherwise, world.crash, world.bounce, world.restart, world.remove,
             world.subscribe, world.grow]
        )  # fmt: skip
        world.do([action])
        (shown,) = world.log.groups_described(GROUP)
        stages.append(
            (len(world.log.stamped), shown.group_epoch == shown.assignment_epoch, *described(world.log, GROUP))
        )
    history = history_of(world.log, tmp_path)
    rows = history.rebalances(GROUP)
    members, places = set(), {}
    for end, is_assigned, members_then, places_then in stages:
        while rows and rows[0].offset < end:
            row = rows.pop(0)
            told = RebalanceEffects(history, row)
            kinds = [each.kind for each in told.changes]
            assert (kinds.count("joined"), kinds.count("left")) == (row.joined, row.left)
            for each in sorted(told.changes, key=lambda change: change.offset):  # one may have left and joined again
                if each.kind in ("joined", "left"):
                    (members.add if each.kind == "joined" else members.discard)(each.seat)
            for move in told.moves:
                place = move.topic, move.partition
                assert places.pop(place, None) == move.owner_before
                if move.owner_after is not None:
                    places[place] = move.owner_after
        if is_assigned:  # otherwise what raised the epoch is a part of the next rebalance
            assert (members, places) == (set(members_then), places_then)
    assert not rows
