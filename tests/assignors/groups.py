"""Random groups and what happens to them, written as `kgm assign` reads them."""

import copy
import dataclasses
import random
import string
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from kgm import assignors
from kgm.assignors import GroupSpec
from kgm.assignors.json_cases import cases_from_json
from tests.selection import first_seed, sized

Case = dict[str, Any]
Answer = dict[str, dict[str, list[int]]]
KINDS = (
    "join",
    "leave",
    "leave-and-join",
    "bounce",
    "add-partitions",
    "stale-generation",
    "resubscribe",
    "remove-topic",
    "several",
)
RACKS = ("rack-a", "rack-b", "rack-c")


#: How many sequences of rounds the comparisons with Kafka and with the slow versions play for each assignor: about 5.2
#: cases each.
SEQUENCES = sized(15, 200)


def every_case(assignor: str) -> Iterator[Case]:
    """Groups in each of their rounds, now and then many rounds, so that drift shows."""
    for seed in range(first_seed(), first_seed() + SEQUENCES):
        for case in sequence(random.Random(f"{assignor}-{seed}"), assignor, steps=9 if seed % 5 == 0 else 3):
            yield {**case, "case": f"seed {assignor}-{seed}, round {case['case']}"}


def group_of(case: Case) -> GroupSpec:
    """A case in the form that an assignor takes. names_generation is for tests: `kgm assign` does not read it."""
    [read] = cases_from_json(case)
    names = [member.get("names_generation", True) for member in case["members"]]
    members = [
        dataclasses.replace(member, names_generation=name)
        for member, name in zip(read.group.members, names, strict=True)
    ]
    return dataclasses.replace(read.group, members=tuple(members))


def assign(name: str, group: GroupSpec, library: str = "java") -> Answer:
    """What kgm answers, in dictionaries and lists."""
    answer = assignors.assign(name, group, library)
    return {member: {topic: list(ps) for topic, ps in topics.items()} for member, topics in answer.items()}


def solve(case: Case) -> Answer:
    """What kgm answers."""
    return assign(case["assignor"], group_of(case))


def sequence(rng: random.Random, assignor: str, *, steps: int = 3) -> list[Case]:
    """A new group, and the same group after each of several changes, its members owning what they were assigned
    before."""
    case = fresh(rng, assignor)
    cases = [case]
    for step in range(steps):
        case = _own(case, solve(case), step + 1)
        kind = rng.choice(KINDS)
        _CHANGES[kind](rng, case)
        case["kind"] = kind
        cases.append(case)
    return [{**case, "case": f"{i}-{case['kind']}"} for i, case in enumerate(cases)]


def fresh(rng: random.Random, assignor: str) -> Case:
    """A group whose members own nothing yet."""
    has_racks = rng.random() < 0.3
    count = rng.choice([1, 2, 3, 5, 8, 12]) if assignor.startswith("consumer-") else rng.choice([1, 2, 3, 5, 8, 20])
    equal = rng.choice([None, None, rng.randint(1, 12)])
    topics = [
        _topic(rng, name, equal or rng.choice([0, 1, 2, 5, 13, 20, 40]), has_racks=has_racks)
        for name in _names(rng, count)
    ]
    case = {"case": "", "kind": "fresh", "assignor": assignor, "topics": topics, "members": []}
    case["alike"] = rng.random() < 0.5
    case["static"] = rng.choice([0.0, 0.5, 1.0])
    for _ in range(rng.choice([1, 2, 3, 5, 8, 13, 25, 60])):
        case["members"].append(_member(rng, case))
    if rng.random() < 0.5:
        case["members"].sort(key=lambda member: member["member_id"])
    return case


def _names(rng: random.Random, count: int) -> list[str]:
    style = rng.randrange(4)
    if style == 0:
        return [f"topic-{i:02d}" for i in range(count)]
    if style == 1:
        return [f"t{i}" for i in range(count)]
    if style == 2:
        return sorted({"".join(rng.choices(string.ascii_letters + "._-", k=rng.randint(1, 20))) for _ in range(count)})
    # Topics cannot have such names, but ids can: beyond the basic plane the order is Java's.
    return rng.sample(
        ["Z", "a", "é", "\uff21", "\U0001f600", "\ue000", "b" * 40, "日本", "a.b", "a-b", "Ω", "~"], k=min(count, 12)
    )


def _topic(rng: random.Random, name: str, partitions: int, *, has_racks: bool) -> dict[str, Any]:
    topic: dict[str, Any] = {"name": name, "partitions": partitions}
    if has_racks and rng.random() < 0.9:
        replicas = rng.choice([1, 1, 2, 3])
        topic["racks"] = [sorted(rng.sample(RACKS, replicas)) for _ in range(partitions)]
    return topic


def _member(rng: random.Random, case: Case) -> dict[str, Any]:
    known = [topic["name"] for topic in case["topics"]]
    is_server = case["assignor"].startswith("consumer-")
    if not is_server and rng.random() < 0.1:
        known = [*known, "not-there"]
    topics = known if case["alike"] else rng.sample(known, rng.randint(0 if rng.random() < 0.1 else 1, len(known)))
    if case["alike"] and case["members"]:
        topics = case["members"][0]["topics"]
    style = rng.random()
    member_id = f"consumer-{uuid.UUID(int=rng.getrandbits(128))}"
    member: dict[str, Any] = {"member_id": member_id, "topics": list(topics), "owned": {}}
    if rng.random() < case["static"]:
        member["group_instance_id"] = (
            f"worker-{rng.randrange(10**6)}" if style < 0.9 else rng.choice("Zaé日\U0001f600") * 3
        )
        member["member_id"] = f"{member['group_instance_id']}-{uuid.UUID(int=rng.getrandbits(128))}"
    if "racks" in case["topics"][0] and rng.random() < 0.8:
        member["rack"] = rng.choice([*RACKS, *RACKS, "rack-d", ""])
    return member


def _own(case: Case, answer: Answer, generation: int) -> Case:
    """The group as it joins again: each member owns what it was assigned, or a part of it after a cooperative round."""
    case = copy.deepcopy(case)
    for member in case["members"]:
        member["owned"] = answer[member["member_id"]]
        if not case["assignor"].startswith("consumer-"):
            member["generation"] = generation
    return case


def _join(rng: random.Random, case: Case) -> None:
    for _ in range(rng.randint(1, 4)):
        case["members"].insert(rng.randint(0, len(case["members"])), _member(rng, case))


def _leave(rng: random.Random, case: Case) -> None:
    for _ in range(rng.randint(1, 4)):
        if len(case["members"]) > 1:
            case["members"].pop(rng.randrange(len(case["members"])))


def _leave_and_join(rng: random.Random, case: Case) -> None:
    _leave(rng, case)
    _join(rng, case)


def _bounce(rng: random.Random, case: Case) -> None:
    """Some members are restarted: they come back with new ids, static ones of consumer groups with what they had."""
    for member in rng.sample(case["members"], rng.randint(1, len(case["members"]))):
        prefix = member.get("group_instance_id", "consumer")
        member["member_id"] = f"{prefix}-{uuid.UUID(int=rng.getrandbits(128))}"
        if not (case["assignor"].startswith("consumer-") and "group_instance_id" in member):
            member["owned"] = {}
            member.pop("generation", None)


def _add_partitions(rng: random.Random, case: Case) -> None:
    topic = rng.choice(case["topics"])
    added = rng.randint(1, 20)
    topic["partitions"] += added
    if "racks" in topic:
        topic["racks"] += [sorted(rng.sample(RACKS, rng.randint(1, 3))) for _ in range(added)]


def _stale_generation(rng: random.Random, case: Case) -> None:
    """Some members missed rebalances, or claim what others own at the same generation."""
    if case["assignor"].startswith("consumer-"):
        return
    topics = [topic for topic in case["topics"] if topic["partitions"]]
    for member in rng.sample(case["members"], rng.randint(1, len(case["members"]))):
        member["generation"] = max(-1, member.get("generation", 0) - rng.randint(0, 2))
        if rng.random() < 0.2:
            member["generation"] = None
        if rng.random() < 0.3:
            member["names_generation"] = False
        mine = [topic for topic in topics if topic["name"] in member["topics"]] if rng.random() < 0.9 else topics
        for topic in rng.sample(mine, min(len(mine), rng.randint(0, 3))):
            claimed = rng.sample(range(topic["partitions"]), rng.randint(1, topic["partitions"]))
            owned = member["owned"].setdefault(topic["name"], [])
            owned += [partition for partition in claimed if partition not in owned]


def _resubscribe(rng: random.Random, case: Case) -> None:
    case["alike"] = False
    for member in rng.sample(case["members"], rng.randint(1, len(case["members"]))):
        topics = [topic["name"] for topic in case["topics"]]
        member["topics"] = rng.sample(topics, rng.randint(1, len(topics)))


def _remove_topic(rng: random.Random, case: Case) -> None:
    if len(case["topics"]) > 1:
        gone = case["topics"].pop(rng.randrange(len(case["topics"])))["name"]
        for member in case["members"]:
            if rng.random() < 0.7 or case["assignor"].startswith("consumer-"):
                member["topics"] = [topic for topic in member["topics"] if topic != gone]


def _several(rng: random.Random, case: Case) -> None:
    """Two or three of the above changes before the group assigns again."""
    for kind in rng.sample(KINDS[:-1], rng.randint(2, 3)):
        _CHANGES[kind](rng, case)


_CHANGES: dict[str, Callable[[random.Random, Case], None]] = {
    "join": _join,
    "leave": _leave,
    "leave-and-join": _leave_and_join,
    "bounce": _bounce,
    "add-partitions": _add_partitions,
    "stale-generation": _stale_generation,
    "resubscribe": _resubscribe,
    "remove-topic": _remove_topic,
    "several": _several,
}
