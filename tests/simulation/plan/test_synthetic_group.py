import json

import pytest

from kgm.model.errors import KgmError, UsageError
from kgm.model.snapshot import TopicSnapshot
from kgm.model.snapshot_json import snapshot_from_json
from kgm.simulation.plan.bounce_plan import WhatIf
from kgm.simulation.plan.starting_group import starting_group_of
from kgm.simulation.plan.synthetic_group import synthetic_group
from tests.simulation.groups import DYNAMIC, STATIC, made_up


@pytest.mark.parametrize("membership", [STATIC, DYNAMIC])
@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_a_made_up_group_is_stable(membership, assignor):
    made = made_up(5, 12, membership, assignor)
    assert made.state == "Stable"
    owned = sorted(p for m in made.members for p in m.assignment["t"])
    assert owned == list(range(12))
    assert len({m.identity for m in made.members}) == 5
    assert [m.group_instance_id for m in made.members] == (
        [f"member-{n}" for n in range(1, 6)] if membership is STATIC else [None] * 5
    )
    again = starting_group_of(made, WhatIf(assignor=assignor)).assignment
    assert {who: list(topics["t"]) for who, topics in again.items()} == {
        m.identity: list(m.assignment["t"]) for m in made.members
    }
    assert snapshot_from_json(json.loads(json.dumps(made.to_json()))).to_json() == made.to_json()


def test_a_made_up_group_is_the_same_every_time_and_sorts_as_it_counts():
    assert made_up(11) == made_up(11)
    names = [m.identity for m in made_up(11).members]
    assert names == sorted(names)
    assert names[0] == "member-01"


def test_what_cannot_be_made_up():
    topic = TopicSnapshot(name="t", partitions=1)
    for members, topics in ((0, [topic]), (1, []), (1, [topic, topic])):
        with pytest.raises(UsageError):
            synthetic_group(members, topics, STATIC, "range")
    with pytest.raises(KgmError):
        synthetic_group(1, [topic], STATIC, "nonsense")


def test_groups_of_absurd_size_are_refused():
    with pytest.raises(UsageError, match="--members is 20001; the maximum is 20000"):
        made_up(20_001, 1)
    with pytest.raises(UsageError, match="1000000000 partitions, more than 200000"):
        made_up(2, 1_000_000_000)
