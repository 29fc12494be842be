"""The order of members in an assignor, kept up to date, is that of Java's maps filled again."""

from __future__ import annotations

import random

import pytest

from kgm.coordinator.groups.member_map_order import MemberMapOrder
from kgm.java.hash_map import map_order
from kgm.java.strings import string_hash
from kgm.java.timeline_hash_map import TimelineOrder

#: Ends of member ids of which Java's hash codes are the same.
ALIKE = ("AaAa", "AaBB", "BBAa", "BBBB")


@pytest.mark.few(4)
@pytest.mark.parametrize("seed", range(12))
def test_members_in_the_order_of_java_s_maps_as_they_come_and_go(seed):
    """Many of them share a bucket and a slot; some are put in again under the same id, after others."""
    r = random.Random(seed)
    order, members, made, shared = MemberMapOrder(), dict[str, None](), 0, 0
    for _ in range(80):
        for _ in range(r.choice([0, 1, 1, 5, 60])):
            made += 1
            members[f"m{made // 4}-{ALIKE[made % 4]}"] = None
        for gone in r.sample([*members], min(len(members), r.choice([0, 1, 1, 5, 50]))):
            del members[gone]
            if r.random() < 0.3:
                members[gone] = None
        newcomer = r.choice([None, "new-AaAa", f"m{made // 4}-BBBB"])
        newcomer = None if newcomer in members else newcomer
        capacity = r.choice([64, 64, 256])
        filled = TimelineOrder(capacity).sorted(members)
        filled += [newcomer] if newcomer else []
        assert order.of(members.keys(), newcomer, capacity) == [filled[at] for at in map_order(filled)]
        shared += len({string_hash(each) for each in members}) < len(members) and len(members) > 48
    assert shared > 10
