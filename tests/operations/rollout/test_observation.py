"""What a rollout that goes on concludes from the group before and now: no cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kgm.client.offsets_topic.group_tail import RecordedGroup, RecordedTarget
from kgm.client.poller import PolledGroup
from kgm.model.client_library import stated_library
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.operations.rollout.missed import missed_between
from kgm.operations.rollout.observation import GroupObservation
from kgm.operations.rollout.spec import RolloutStep, StepKind
from kgm.operations.watch.events import EventKind
from tests.operations.watch.virtual_time import VirtualTime


def _group(generation: int | None) -> GroupSnapshot:
    member = MemberSnapshot(member_id="a-1", group_instance_id="a", status="stable", topics=("t",))
    return GroupSnapshot(group_id="g", type="classic", state="Stable", members=(member,), generation=generation)


class _Poller:
    """Shows one group after another, and then the last one."""

    def __init__(self, *groups: GroupSnapshot, recorded: Sequence[GroupSnapshot] = ()) -> None:
        self._groups = [*groups]
        self._recorded = [RecordedGroup(at_ms=0, group=one) for one in recorded]

    def poll(self) -> dict[str, PolledGroup]:
        return {"g": PolledGroup(seen=self._groups.pop(0) if len(self._groups) > 1 else self._groups[0])}

    def read_back(self) -> dict[str, list[RecordedGroup]]:
        return {"g": self._recorded}


@pytest.mark.parametrize(
    ("before", "now", "rebalances", "doubt"),
    [
        (4, 4, 0, None), (4, 6, 2, None),
        (9, 2, 2, "at least: the group was deleted meanwhile and counts from 1 again"),
        (None, 2, 0, "at least: the generation before or now is not known"),
    ],
)  # fmt: skip
def test_what_happened_while_nobody_looked_is_counted_by_generations(before, now, rebalances, doubt):
    observation = GroupObservation("g", _Poller(_group(now)), VirtualTime())
    observation.poll()
    step = RolloutStep(kind=StepKind.BOUNCE, members=("a",))
    observation.resume(step, _group(before), is_acknowledged=False)
    counts = observation.counts()
    assert counts.rebalances == rebalances
    assert (None if counts.rebalances_doubt is None else str(counts.rebalances_doubt)) == doubt


def _owning(generation: int | None, **owned: Sequence[int]) -> GroupSnapshot:
    """A group whose static members own these partitions of topic t."""
    members = tuple(
        MemberSnapshot(
            member_id=f"{name}-1", group_instance_id=name, status="stable", topics=("t",), assignment={"t": (*numbers,)}
        )
        for name, numbers in owned.items()
    )
    state = "Stable" if members else "Empty"
    return GroupSnapshot(group_id="g", type="classic", state=state, members=members, generation=generation)


_BEFORE = _owning(4, a=(0, 1), b=(2, 3))
_WITHOUT_A = _owning(5, b=(0, 1, 2, 3))
_NOW = _owning(6, a=(0, 1), b=(2, 3))


@pytest.mark.parametrize(
    ("now", "recorded", "handovers", "is_exact"),
    [
        (_WITHOUT_A, (), 2, True),  # one generation: each partition had one owner before and has one now
        (_NOW, (_BEFORE, _WITHOUT_A, _NOW), 4, True),
        (_NOW, (_owning(3, a=(0,), b=(1, 2, 3)), _BEFORE, _WITHOUT_A, _NOW), 4, True),  # the log has an older record
        (_NOW, (_BEFORE, _WITHOUT_A, _NOW, _owning(7, a=(0, 1, 2, 3))), 4, True),  # the next poll has the newest
        (_NOW, (_BEFORE, _NOW), 0, True),  # generation 5 was not assigned: the coordinator writes no record of it
        (_NOW, (), 0, False),
        (_NOW, (_WITHOUT_A, _NOW), 0, False),  # records before these were compacted, or not read
        (_NOW, (_BEFORE, _WITHOUT_A), 0, False),
        (_NOW, (_BEFORE, _owning(1, b=(0, 1, 2, 3)), _NOW), 0, False),  # it was deleted
        (replace(_NOW, type="consumer", generation=None, assignment_epoch=6), (_BEFORE, _WITHOUT_A, _NOW), 0, False),
    ],
)
def test_handovers_while_nobody_looked_are_those_in_the_log(now, recorded, handovers, is_exact):
    """They are exact only if every assignment since the step began is known: a partition that is where it was may have
    been elsewhere in between."""
    observation = GroupObservation("g", _Poller(now, recorded=recorded), VirtualTime())
    observation.poll()
    step = RolloutStep(kind=StepKind.REPLACE, members=("a",))
    before = _BEFORE if now.type == "classic" else replace(_BEFORE, type="consumer", assignment_epoch=4)
    observation.resume(step, before, is_acknowledged=False)
    counts = observation.counts()
    assert counts.most_rebalances == (2 if now.generation is None else now.generation - 4)
    assert (counts.handovers, counts.handovers_exact) == (handovers, is_exact)
    acknowledged = observation.resume(step, before, is_acknowledged=True)
    assert (observation.counts().handovers, observation.counts().unknown_because) == (0, None)
    assert (acknowledged.group, acknowledged.counts, observation.all_counts()) == (now, counts, counts)
    later = GroupObservation("g", _Poller(now, recorded=recorded), VirtualTime())
    later.poll()
    assert later.resume(step, before, acknowledged, is_acknowledged=False) == acknowledged
    assert (later.counts().rebalances, later.counts().handovers, later.all_counts()) == (0, 0, counts)


@pytest.mark.parametrize(
    ("epochs", "least", "most"),
    [
        ((2, 4, 6), 1, 1), ((3, 4, 6, 6, 8), 1, 1), ((4, 5, 6), 2, 2),
        ((6,), 1, 2), ((5, 6), 1, 2), ((4, 5), 1, 2), ((4, None, 6), 1, 2), ((), 1, 2),
    ],
)  # fmt: skip
def test_target_assignments_while_nobody_looked_are_those_in_the_log(epochs, least, most):
    """From the epoch 4 to 6: with all records since, as many as there are, and without at most two."""
    recorded = [RecordedTarget(at_ms=1, epoch=epoch) for epoch in epochs]
    before, now = (replace(_BEFORE, type="consumer", assignment_epoch=epoch) for epoch in (4, 6))
    counts = missed_between(before, now, recorded).counts
    assert (counts.rebalances, counts.most_rebalances) == (least, most)


@pytest.mark.parametrize(("member_id", "rebalances", "doubt"), [("a-1", 0, False), ("a-2", 4, True)])
def test_the_same_generation_of_other_members_may_be_that_of_another_group(member_id, rebalances, doubt):
    """The log was read, and no longer has the record from before."""
    now = replace(_group(4), members=(replace(_group(4).members[0], member_id=member_id),))
    counts = missed_between(_group(4), now, [RecordedGroup(at_ms=1, group=now)]).counts
    assert (counts.rebalances, counts.rebalances_doubt is not None) == (rebalances, doubt)


def test_a_partition_without_a_consumer_when_kgm_goes_on_is_handed_over_to_the_next():
    """As if kgm had looked all the time. No API returns the generation of an empty group, but its record has it."""
    empty = _owning(5)
    poller = _Poller(replace(empty, generation=None), _owning(6, a=(2, 3), b=(0, 1)), recorded=(_BEFORE, empty))
    observation = GroupObservation("g", poller, VirtualTime())
    observation.poll()
    observation.resume(RolloutStep(kind=StepKind.REPLACE, members=("a", "b")), _BEFORE, is_acknowledged=False)
    assert (observation.counts().rebalances, observation.counts().unknown_because) == (1, None)
    observation.poll()
    observation.poll()
    assert observation.counts().handovers == 4


def test_a_step_is_not_over_while_lost_work_is_held_back():
    """A Connect group is Stable then, with all members."""
    step = RolloutStep(kind=StepKind.BOUNCE, members=())
    for delay_ms, count in ((None, 0), (0, 0), (40_000, 1)):
        observation = GroupObservation("g", _Poller(replace(_group(4), rebalance_delay_ms=delay_ms)), VirtualTime())
        observation.poll()
        observation.resume(step, _group(4), is_acknowledged=False)
        assert len(observation.missing()) == count, observation.missing()


@pytest.mark.parametrize(
    ("stated", "seen", "why"),
    [
        (None, None, ""),
        (None, "java", ""),
        (None, "platformatic", "; a static member of platformatic leaves when it is closed"),
        ("platformatic", "java", "; a static member of platformatic leaves when it is closed"),
        ("java", "platformatic", ""),
    ],
)
def test_a_static_member_that_left_because_it_was_closed_is_told_of_as_such(stated, seen, why):
    """Not as one whose session has timed out."""
    (member,) = _group(4).members
    library = None if seen is None else stated_library(seen)
    before = replace(_group(4), members=(replace(member, client_library=library),))
    observation = GroupObservation(
        "g", _Poller(before, replace(before, members=(), generation=5)), VirtualTime(), library=stated
    )
    observation.poll()
    observation.begin(RolloutStep(kind=StepKind.BOUNCE, members=("a",)), {})
    (left,) = [event.text for event in observation.poll() if event.kind is EventKind.LEFT]
    assert left == f"a  a-1{why}"
    assert observation.missing() == [f"a has not come back{why}"]
    assert bool(observation.expired()) is not bool(why)


@pytest.mark.parametrize(
    ("session_ms", "after_ms", "can_have_expired"),
    [(10_000, 1_000, False), (10_000, 6_000, False), (10_000, 12_000, True), (None, 12_000, False)],
)
def test_a_session_has_timed_out_only_if_there_was_time_for_it(session_ms, after_ms, can_have_expired):
    """A member without a heartbeat is a member for a session timeout: one that is gone earlier was removed, or left."""
    clock = VirtualTime()
    before = replace(_group(4), session_timeout_ms=session_ms)
    observation = GroupObservation("g", _Poller(before, before, replace(before, members=(), generation=5)), clock)
    observation.poll()
    observation.begin(RolloutStep(kind=StepKind.BOUNCE, members=("a",)), {})
    observation.poll()
    clock.sleep_ms(after_ms)
    observation.poll()
    (text,) = observation.expired()
    assert (text == "the session of a has timed out before it came back") is can_have_expired
    assert (
        text
        == "a was removed from the group before it came back, or its session timed out, or it left when it was closed"
    ) is not can_have_expired


@pytest.mark.parametrize(("kind", "is_named"), [("classic", True), ("consumer", False)])
def test_a_program_on_librdkafka_may_have_unsubscribed_before_it_closed(kind, is_named):
    """Seen with stream.close() of node-rdkafka 3.6.1: the member left a classic group with LeaveGroup."""
    before = replace(_group(4), type=kind)
    before = replace(
        before, members=tuple(replace(one, client_library=stated_library("librdkafka")) for one in before.members)
    )
    observation = GroupObservation("g", _Poller(before, replace(before, members=(), generation=5)), VirtualTime())
    observation.poll()
    observation.begin(RolloutStep(kind=StepKind.BOUNCE, members=("a",)), {})
    observation.poll()
    (text,) = observation.expired()
    named = "or it left when it was closed, as static members of librdkafka do if their program unsubscribes first"
    assert (named in text) is is_named
