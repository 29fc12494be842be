"""Random groups as a leader sees them, and the files in which the answers of client libraries are recorded."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Iterator
from typing import Any

from kgm.assignors.libraries import ASSIGNORS
from tests import ROOT
from tests.assignors.groups import Answer, Case, assign, group_of
from tests.assignors.libraries.oracle import VERSIONS

RECORDED = ROOT / "tests" / "vectors" / "libraries"
#: (library, assignor) of all that are held against the library itself.
PAIRS = [(library, name) for library in VERSIONS for name in ASSIGNORS[library]]
#: Topics cannot have such names, but member ids can: what they sort like differs between Java, Go and JavaScript.
_ODD = ["Z", "a", "é", "\uff21", "\U0001f600", "\ue000"]


def solve(case: Case) -> Answer:
    """What kgm answers."""
    return assign(case["assignor"], group_of(case), case["library"])


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
        order = rng.sample(names, len(names))
        if (library, assignor) == ("kafka-python", "cooperative-sticky"):
            order.sort()  # as it writes them
        members = [_member(rng, kind, order, is_alike=is_alike) for _ in range(rng.choice([1, 2, 3, 4, 5, 9]))]
        if "sticky" in assignor and rng.random() < 0.8:
            _claim(rng, members, topics)
        yield {
            "case": f"{seed}-{number}", "library": library, "version": VERSIONS[library], "assignor": assignor,
            "topics": topics, "members": members, "leader": rng.choice(members)["member_id"],
        }  # fmt: skip


def _member(rng: random.Random, kind: float, names: list[str], *, is_alike: bool) -> dict[str, Any]:
    topics = list(names) if is_alike else sorted(rng.sample(names, rng.randint(1, len(names))), key=names.index)
    prefix = rng.choice(_ODD) if rng.random() < 0.1 else f"app-{rng.randrange(20)}"
    member: dict[str, Any] = {"member_id": f"{prefix}-{uuid.UUID(int=rng.getrandbits(128))}", "topics": topics}
    if rng.random() < kind:
        # As brokers make member ids, unless the member was dynamic once.
        starts = prefix if rng.random() < 0.8 else rng.choice("z0")
        member["group_instance_id"] = f"{starts}-{rng.randrange(10**6)}"
    return member


def _claim(rng: random.Random, members: list[dict[str, Any]], topics: list[dict[str, Any]]) -> None:
    """Members claim partitions: evenly or not, some of them nothing, and now and then one that another has got since."""
    old, few = rng.randint(1, len(members)), rng.random() < 0.5
    for member in members:
        member["owned"], member["generation"] = {}, 5 if rng.random() < 0.9 else 4
    for topic in topics:
        for number in range(topic["partitions"]):
            if rng.random() < 0.9:
                taker = members[rng.randrange(old) if few else number % old]
                if topic["name"] in taker["topics"] or rng.random() < 0.1:
                    taker["owned"].setdefault(topic["name"], []).append(number)


def without_empty(answer: Answer, case: Case) -> Answer:
    """Some libraries name topics of which a member gets nothing, and some leave out members that get nothing."""
    return {
        row["member_id"]: {topic: sorted(ps) for topic, ps in answer.get(row["member_id"], {}).items() if ps}
        for row in case["members"]
    }


def recorded(library: str) -> list[Case]:
    """What the library has answered, each case with `expected`."""
    return [json.loads(line) for line in (RECORDED / f"{library}.jsonl").read_text().splitlines()]
