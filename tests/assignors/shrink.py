"""Shrinks a failing group to as few members, topics, partitions and claims as still show the error."""

import copy
from collections.abc import Callable, Iterator
from itertools import combinations

from tests.assignors.groups import Case


def shrink(case: Case, is_wrong: Callable[[Case], bool]) -> Case:
    """The smallest case found by leaving out one thing after the other, as long as it stays wrong."""
    assert is_wrong(case), "nothing to shrink"
    while True:
        smaller = next((candidate for candidate in _smaller(case) if is_wrong(candidate)), None)
        if smaller is None:
            return case
        case = smaller


def size(case: Case) -> int:
    """The size of the case: how much there is to read."""
    claims = sum(len(ps) for member in case["members"] for ps in member["owned"].values())
    return len(case["members"]) + sum(1 + topic["partitions"] for topic in case["topics"]) + claims


def _smaller(case: Case) -> Iterator[Case]:
    """The case with something left out, the largest reductions first."""
    members, topics = case["members"], case["topics"]
    for some in _parts(len(members)):
        if len(some) < len(members):
            yield {**case, "members": [m for i, m in enumerate(members) if i not in some]}
    for some in _parts(len(topics)):
        yield _without_topics(case, {topics[i]["name"] for i in some})
    for i, topic in enumerate(topics):
        for partitions in dict.fromkeys([topic["partitions"] // 2, topic["partitions"] - 1]):
            if 0 <= partitions < topic["partitions"]:
                yield _resized(case, i, partitions)
    for i, member in enumerate(members):
        for change in _simpler(member):
            yield {**case, "members": [*members[:i], change, *members[i + 1 :]]}
    # Quotas change with every single member and partition: to stay wrong, a case may have to lose two things at the
    # same time.
    for i in range(len(members)):
        fewer = {**case, "members": members[:i] + members[i + 1 :]}
        yield from (
            _resized(fewer, t, topic["partitions"] - 1) for t, topic in enumerate(topics) if topic["partitions"]
        )
        yield from ({**case, "members": [m for k, m in enumerate(members) if k not in (i, j)]} for j in range(i))
    for t, u in combinations(range(len(topics)), 2):
        if topics[t]["partitions"] and topics[u]["partitions"]:
            yield _resized(_resized(case, t, topics[t]["partitions"] - 1), u, topics[u]["partitions"] - 1)
    if any("racks" in topic for topic in topics):
        yield {**case, "topics": [{k: v for k, v in topic.items() if k != "racks"} for topic in topics]}


def _parts(count: int) -> Iterator[set[int]]:
    """Halves, quarters, and so on down to single positions."""
    width = count // 2
    while width:
        yield from (set(range(start, min(start + width, count))) for start in range(0, count, width))
        width //= 2


def _without_topics(case: Case, gone: set[str]) -> Case:
    members = [
        {
            **member,
            "topics": [name for name in member["topics"] if name not in gone],
            "owned": {name: ps for name, ps in member["owned"].items() if name not in gone},
        }
        for member in case["members"]
    ]
    return {**case, "members": members, "topics": [topic for topic in case["topics"] if topic["name"] not in gone]}


def _resized(case: Case, position: int, partitions: int) -> Case:
    case = copy.deepcopy(case)
    topic = case["topics"][position]
    topic["partitions"] = partitions
    if "racks" in topic:
        del topic["racks"][partitions:]
    for member in case["members"]:
        left = [p for p in member["owned"].pop(topic["name"], ()) if p < partitions]
        if left:
            member["owned"][topic["name"]] = left
    return case


def _simpler(member: dict) -> Iterator[dict]:
    for key in ("group_instance_id", "rack", "generation", "names_generation"):
        if key in member:
            yield {k: v for k, v in member.items() if k != key}
    if member["owned"]:
        yield {**member, "owned": {}}
    for name, partitions in member["owned"].items():
        yield {**member, "owned": {k: v for k, v in member["owned"].items() if k != name}}
        for i in range(len(partitions) if len(partitions) > 1 else 0):
            yield {**member, "owned": {**member["owned"], name: partitions[:i] + partitions[i + 1 :]}}
    if len(member["topics"]) > 1:
        for name in member["topics"]:
            yield {**member, "topics": [other for other in member["topics"] if other != name]}
