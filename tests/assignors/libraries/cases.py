"""Random groups as a leader sees them, and the files in which the answers of client libraries are recorded."""

from __future__ import annotations

import json
import math
import random
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from kgm.assignors.libraries import ASSIGNORS
from kgm.assignors.map_order import MapOrder
from tests import ROOT
from tests.assignors.groups import Answer, Case, assign, group_of
from tests.assignors.libraries.oracle import VERSIONS

RECORDED = ROOT / "tests" / "vectors" / "libraries"
#: (library, assignor) of all that are compared with the library itself.
PAIRS = [(library, name) for library in VERSIONS for name in ASSIGNORS[library]]
#: Those that follow the order of Go maps.
BY_MAP_ORDER = [pair for pair in PAIRS if pair[0] in ("franz-go", "sarama") and "sticky" in pair[1]]
#: Topics cannot have such names, but member ids can: they sort differently in Java, Go and JavaScript.
_ODD = ["Z", "a", "é", "\uff21", "\U0001f600", "\ue000"]


def solve(case: Case) -> Answer:
    """What kgm answers."""
    return assign(case["assignor"], group_of(case), case["library"])


class _EveryOrder:
    """Goes through all orders of everything that is taken in the order of a map."""

    def __init__(self) -> None:
        self._choices: list[list[int]] = []  # (which, of how many) for each list in turn
        self._at = 0

    def shuffle(self, items: list[Any]) -> None:
        if self._at == len(self._choices):
            self._choices.append([0, math.factorial(len(items))])
        which, left = self._choices[self._at][0], [*items]
        self._at += 1
        for place in range(len(items)):
            which, taken = divmod(which, len(left))
            items[place] = left.pop(taken)

    def turn(self) -> bool:
        """Go to the next order; False if there is none."""
        self._at = 0
        while self._choices:
            self._choices[-1][0] += 1
            if self._choices[-1][0] < self._choices[-1][1]:
                return True
            self._choices.pop()
        return False


def answers(case: Case, most: int) -> tuple[list[Answer], bool] | None:
    """What kgm answers with every order of Go's maps, and whether it reports that the order decides; None if there are
    more than `most` orders."""
    found: dict[str, Answer] = {}
    decides, order = False, _EveryOrder()
    for _ in range(most):
        answer, said = in_map_order(case, order.shuffle)
        decides |= said
        found.setdefault(json.dumps(answer, sort_keys=True), answer)
        if not order.turn():
            return [*found.values()], decides
    return None


def in_map_order(case: Case, shuffle: Callable[[list[Any]], None]) -> tuple[Answer, bool]:
    """What kgm answers with one order of Go's maps, and whether it reports that the order decides."""
    order = MapOrder(shuffle)
    group = replace(group_of(case), map_order=order)
    return without_empty(assign(case["assignor"], group, case["library"]), case), order.decides


def cases_of(library: str, assignor: str, seed: int, count: int) -> Iterator[Case]:
    """Groups of 1 to 9 members, static, dynamic or both, with the same topics or different ones."""
    rng = random.Random(f"{seed}/{library}/{assignor}")
    for number in range(count):
        names = rng.choice([["orders"], ["a", "a-1", "b"], [f"t{place}" for place in range(rng.randint(2, 5))]])
        topics = [
            {"name": name, "partitions": rng.choice([1, 2, 3, 5, 11, 12, 23])} for name in rng.sample(names, len(names))
        ]
        kind, is_alike = rng.choice([0.0, 0.5, 1.0]), rng.random() < 0.6
        # It fails where subscriptions differ, which has a test of its own.
        is_alike = is_alike or (library, assignor) == ("kafka-python", "roundrobin")
        is_small = (library, assignor) in BY_MAP_ORDER and rng.random() < 0.8
        if is_small:
            names = names[:2]
            topics = [{"name": name, "partitions": rng.choice([1, 2, 3])} for name in names]
        order = rng.sample(names, len(names))
        if (library, assignor) == ("kafka-python", "cooperative-sticky"):
            order.sort()  # as it writes them
        members = [_member(rng, kind, order, is_alike=is_alike) for _ in range(rng.choice([1, 2, 3, 4, 5, 9]))]
        if "sticky" in assignor and rng.random() < 0.8:
            _claim(rng, members, topics)
            if (library, assignor) in BY_MAP_ORDER and rng.random() < 0.4:
                _claim_twice(rng, members, topics)
        yield {
            "case": f"{seed}-{number}", "library": library, "version": VERSIONS[library], "assignor": assignor,
            "topics": topics, "members": members, "leader": rng.choice(members)["member_id"],
        }  # fmt: skip


def _member(rng: random.Random, kind: float, names: list[str], *, is_alike: bool) -> dict[str, Any]:
    topics = list(names) if is_alike else sorted(rng.sample(names, rng.randint(1, len(names))), key=names.index)
    prefix = rng.choice(_ODD) if rng.random() < 0.1 else f"app-{rng.randrange(20)}"
    member: dict[str, Any] = {"member_id": f"{prefix}-{uuid.UUID(int=rng.getrandbits(128))}", "topics": topics}
    if rng.random() < kind:
        # As brokers make member ids, unless the member once was dynamic.
        starts = prefix if rng.random() < 0.8 else rng.choice("z0")
        member["group_instance_id"] = f"{starts}-{rng.randrange(10**6)}"
    return member


def _claim(rng: random.Random, members: list[dict[str, Any]], topics: list[dict[str, Any]]) -> None:
    """Members claim partitions: evenly or not, some of them none, and now and then one that another member has been
    assigned since."""
    old, few = rng.randint(1, len(members)), rng.random() < 0.5
    for member in members:
        member["owned"], member["generation"] = {}, 5 if rng.random() < 0.9 else 4
    for topic in topics:
        for number in range(topic["partitions"]):
            if rng.random() < 0.9:
                taker = members[rng.randrange(old) if few else number % old]
                if topic["name"] in taker["topics"] or rng.random() < 0.1:
                    taker["owned"].setdefault(topic["name"], []).append(number)


def _claim_twice(rng: random.Random, members: list[dict[str, Any]], topics: list[dict[str, Any]]) -> None:
    """Members claim what others claim too, usually at another generation."""
    for member in members:
        if rng.random() < 0.3:
            member["generation"] = rng.choice([2, 3, 5])
            for topic in topics:
                claimed = {*member["owned"].get(topic["name"], ()), *rng.sample(range(topic["partitions"]), 1)}
                member["owned"][topic["name"]] = sorted(claimed)


def without_empty(answer: Answer, case: Case) -> Answer:
    """The answer without empty entries: some libraries name topics of which a member gets nothing, and some leave out
    members that get nothing."""
    return {
        row["member_id"]: {topic: sorted(ps) for topic, ps in answer.get(row["member_id"], {}).items() if ps}
        for row in case["members"]
    }


def recorded(library: str) -> list[Case]:
    """What the library has answered, each case with `expected`."""
    return [json.loads(line) for line in (RECORDED / f"{library}.jsonl").read_text().splitlines()]
