"""Which records of the log are known to be all since a description."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgm.client.offsets_topic.group_tail import RecordedGroup, RecordedTarget
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.operations.watch.past_records import records_since

MEMBER = MemberSnapshot(member_id="a-1", status="stable")
CLASSIC = GroupSnapshot(group_id="g", type="classic", state="Stable", generation=4, members=(MEMBER,))
CONSUMER = GroupSnapshot(group_id="g", type="consumer", state="Stable", assignment_epoch=4)
NO_GENERATION = GroupSnapshot(group_id="g", type="classic", state="Empty")


def generations(*numbers, member=MEMBER):
    groups = [replace(CLASSIC, generation=number, members=(member,)) for number in numbers]
    return [RecordedGroup(at_ms=1, group=group) for group in groups]


def targets(*epochs):
    return [RecordedTarget(at_ms=1, epoch=epoch) for epoch in epochs]


def numbers(records):
    return records and [one.epoch if isinstance(one, RecordedTarget) else one.group.generation for one in records]


@pytest.mark.parametrize(
    ("before", "recorded", "expected"),
    [
        (CLASSIC, generations(4, 5, 6), [5, 6]),
        (CLASSIC, generations(2, 3, 4, 4, 5, 5), [5, 5]),
        (CLASSIC, generations(4), []),
        (CLASSIC, [*targets(3), *generations(4, 5)], [5]),
        (CLASSIC, [*generations(4, 5), *targets(5, 6)], [5, 5, 6]),
        (CONSUMER, targets(4, 6, 9), [6, 9]),
        (CONSUMER, [*generations(2), *targets(3, 4, 6)], [6]),
        # some may be missing: none is as old as the description
        (CLASSIC, generations(5, 6), None),
        (CONSUMER, targets(3, 6), None),
        (CLASSIC, [], None),
        (CONSUMER, targets(6), None),
        (CONSUMER, [*generations(4), *targets(6, 9)], None),
        # the group was deleted, or changed its protocol
        (CLASSIC, generations(4, 5, 1, 2), None),
        (CLASSIC, generations(1, 2, 3, 4, 5, member=replace(MEMBER, member_id="a-2")), None),
        (CLASSIC, [*generations(4, 5), *targets(2, 3)], None),
        (CONSUMER, targets(3, 4, None, 3, 4), None),
        (CONSUMER, [*targets(4, 5, None), *generations(6)], None),
        (CONSUMER, targets(4, 5, None), None),
        # nothing to compare with
        (NO_GENERATION, generations(4, 5), None),
    ],
)  # fmt: skip
def test_what_is_known_to_be_complete(before, recorded, expected):
    assert numbers(records_since(before, recorded)) == expected


@pytest.mark.parametrize(("taken_ms", "expected"), [(None, [6]), (1, [6]), (0, None)])
def test_a_record_that_is_younger_than_the_description_is_not_its_record(taken_ms, expected):
    """A group that was created again has reached the same epoch."""
    assert numbers(records_since(CONSUMER, targets(4, 6), taken_ms=taken_ms)) == expected
