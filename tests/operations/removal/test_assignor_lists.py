"""Classic groups whose members list different assignors, or the same in a different order (`partition.assignment.strategy`):
the broker chooses again in each rebalance, so what is told of a removal, and what then really moves."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from kgm.client import connect
from kgm.model.assignment import Move, moves
from kgm.model.client_library import LIBRDKAFKA, stated_library
from kgm.model.snapshot import CoordinatorNode, GroupSnapshot, MemberSnapshot, TopicSnapshot
from kgm.operations.removal.preview import preview_moves
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import Plan, WhatIf
from tests.cli.runner import kgm
from tests.kafka.broker import KafkaCluster
from tests.kafka.members import JavaMembers, Member, RdMembers
from tests.waiting import until

TOPICS = {"lists-6": 6, "lists-7": 7}
RANGE_FIRST, COOPERATIVE_FIRST = "range,cooperative-sticky", "cooperative-sticky,range"
TAKEN = "all members are taken to list the same assignors in the same order (partition.assignment.strategy)"
SEEN = "with some of its members the group has used cooperative-sticky before"


@dataclass
class Group:
    """A real group of static members m-0, m-1 and so on."""

    kafka: KafkaCluster
    group_id: str
    members: list[Member]

    def described(self, size: int) -> GroupSnapshot:
        """Once it is stable, with so many members that have all partitions."""

        def is_settled(found: GroupSnapshot) -> bool:
            owned = sum(len(numbers) for one in found.members for numbers in one.assignment.values())
            return (found.state, len(found.members), owned) == ("Stable", size, sum(TOPICS.values()))

        with connect(self.kafka.bootstrap, timeout_ms=30_000) as cluster:
            return until(lambda: cluster.describe_group(self.group_id), "the group does not settle", accept=is_settled)

    def ask(self, command: str, *arguments: str) -> Any:
        """The data of the command's JSON, and its exit code."""
        done = kgm(command, self.group_id, *arguments, "-o", "json", "-b", self.kafka.bootstrap)
        return json.loads(done.out)["data"], done.code

    def removed(self, *numbers: int) -> tuple[dict[str, Any], GroupSnapshot, set[Move]]:
        """What is told of a removal before, the group after it, and what has moved."""
        before = self.described(len(self.members))
        for number in numbers:
            self.members[number].close()
        names = ",".join(f"m-{number}" for number in numbers)
        told, _ = self.ask("remove-members", "-i", names, "--assume-stopped", "--dry-run")
        done, code = self.ask("remove-members", "-i", names, "--assume-stopped", "--yes", "--no-audit")
        assert (code, done["moves_expected"]) == (0, told["moves_expected"])
        assert {*told["warnings"]} <= {*done["warnings"]}
        after = self.described(len(self.members) - len(numbers))
        owners = ({one.identity: one.assignment for one in group.members} for group in (before, after))
        return told, after, set(moves(*owners))


def joined(kafka: KafkaCluster, pool: JavaMembers | RdMembers, lists: Sequence[str]) -> Group:
    """The members join one after the other."""
    group = Group(kafka, f"lists-{uuid.uuid4().hex[:8]}", [])
    for number, assignor in enumerate(lists):
        member = pool.start(
            group=group.group_id, topics=[*TOPICS], instance_id=f"m-{number}", assignor=assignor,
            session_timeout_ms=60_000,
        )  # fmt: skip
        group.members.append(member)
        member.wait_assigned()
        group.described(number + 1)
    return group


@pytest.fixture(scope="module")
def broker(kafka: KafkaCluster) -> KafkaCluster:
    kafka.create_topics(TOPICS)
    return kafka


@pytest.fixture
def java(broker: KafkaCluster) -> Iterator[JavaMembers]:
    with JavaMembers(broker.bootstrap) as pool:
        yield pool


def as_moves(told: dict[str, Any]) -> set[Move]:
    return {
        Move(topic=one["topic"], partition=one["partition"], owner_before=one["from"], owner_after=one["to"])
        for one in told["moves_expected"]
    }


@pytest.mark.kafka
@pytest.mark.timeout(180)
def test_a_group_that_has_used_another_assignor_may_use_it_again(
    broker: KafkaCluster, java: JavaMembers, tmp_path: Path
):
    """Only the last member lists nothing but range, and it is removed."""
    group = joined(broker, java, [COOPERATIVE_FIRST, COOPERATIVE_FIRST, "range"])
    data, _ = group.ask("describe")
    (described,) = data["groups"]
    assert (described["assignor"], described["earlier_assignors"]) == ("range", ["cooperative-sticky"])
    file = tmp_path / "group.json"
    file.write_text(json.dumps({"schema": "kgm.describe/v1", "data": data}))
    heartbeats = ("--heartbeat-interval", "300ms")
    for source in ((), ("--from-file", str(file))):
        bounce = ("--scale-in", "m-2", *heartbeats, *source)
        (scenario,) = predicted(group, *bounce)["scenarios"]
        moved = scenario["ranges"]["moved_partitions"]
        assert (scenario["exact"], moved["max"]) == (False, 13)
        assert any(SEEN in text for text in scenario["caveats"])
        assert not any(TAKEN in text for text in scenario["caveats"])
        # --assignor states that all list the same; a restart within the session makes no broker choose.
        assert predicted(group, *bounce, "--assignor", "range")["scenarios"][0]["exact"]
        (restart,) = predicted(group, "--instance-ids", "m-2", "--restart-time", "2s", *heartbeats, *source)[
            "scenarios"
        ]
        assert (restart["exact"], restart["rebalances"]) == (True, 0)
    limit = str(scenario["moved_partitions"])
    assert gate(group, limit) == 8
    told, after, happened = group.removed(2)
    assert after.assignor == "cooperative-sticky"
    assert as_moves(told) != happened
    assert moved["min"] <= len(happened) <= moved["max"]
    assert any(SEEN in text for text in told["warnings"])
    assert any("from 4 to 13 partitions may move" in text for text in told["warnings"])


def predicted(group: Group, *arguments: str) -> Any:
    live = () if "--from-file" in arguments else (group.group_id, "-b", group.kafka.bootstrap)
    done = kgm("simulate-bounce", *live, *arguments, "-o", "json")
    assert done.code == 0, done.err
    return json.loads(done.out)["data"]


def gate(group: Group, most: str) -> int:
    arguments = ("--scale-in", "m-2", "--heartbeat-interval", "300ms", "--fail-if-moves", most)
    return kgm("simulate-bounce", group.group_id, *arguments, "-b", group.kafka.bootstrap).code


@pytest.mark.kafka
@pytest.mark.timeout(180)
def test_the_moves_assume_one_order_of_the_assignors(broker: KafkaCluster, java: JavaMembers):
    """All list both, three range first; without two of these it is one against two. Nothing shows that."""
    group = joined(broker, java, [RANGE_FIRST] * 3 + [COOPERATIVE_FIRST] * 2)
    shown = kgm("remove-members", group.group_id, "-i", "m-0", "--dry-run", "--allow-live", "-b", broker.bootstrap)
    assert "partitions may move: " in shown.out
    assert TAKEN in shown.err
    told, after, happened = group.removed(0, 1)
    assert after.assignor == "cooperative-sticky"
    assert as_moves(told) != happened
    assert [text for text in told["warnings"] if TAKEN in text]


@pytest.mark.kafka
@pytest.mark.timeout(180)
def test_nothing_is_taken_of_members_that_can_list_only_one_assignor(broker: KafkaCluster):
    with RdMembers(broker.bootstrap) as rd:
        group = joined(broker, rd, ["cooperative-sticky"] * 3)
        told, _, happened = group.removed(1)
    assert as_moves(told) == happened
    assert not any("partition.assignment.strategy" in text for text in told["warnings"])


def of_a_broker(assignor: str = "range", *, library: str | None = None, size: int = 3) -> GroupSnapshot:
    members = tuple(
        MemberSnapshot(
            member_id=f"m-{number}-1", group_instance_id=f"m-{number}", topics=("t",), names_owned=True,
            assignment={"t": (2 * number, 2 * number + 1)},
            client_library=None if library is None else stated_library(library),
        )
        for number in range(size)
    )  # fmt: skip
    return GroupSnapshot(
        group_id="g", type="classic", state="Stable", protocol_type="consumer", assignor=assignor, members=members,
        topics=(TopicSnapshot(name="t", partitions=2 * size),), coordinator=CoordinatorNode(id=1, host="h", port=9092),
        session_timeout_ms=60_000, rebalance_timeout_ms=60_000,
    )  # fmt: skip


def taken(group: GroupSnapshot, *gone: str, stated: str | None = None) -> tuple[bool, bool]:
    """Whether the preview of a removal, and the simulator, say what is taken of the lists."""
    ids = [one.member_id for one in group.members if one.identity in gone]
    notes = preview_moves(group, ids, stated_assignor=stated).notes
    played = simulate(group, Plan(remove=gone, what_if=WhatIf(assignor=stated)), draws=5)
    return any(TAKEN in text for text in notes), any(TAKEN in text for text in played.caveats)


def test_what_is_taken_is_told_where_members_that_stay_are_assigned():
    assert taken(of_a_broker(), "m-0") == (True, True)
    assert taken(of_a_broker(), "m-0", stated="range") == (False, False)
    assert taken(of_a_broker(size=2), "m-0") == (False, False)  # whatever it is, the other one gets all
    assert taken(of_a_broker("cooperative-sticky", library=LIBRDKAFKA), "m-0") == (False, False)
    assert taken(of_a_broker(library=LIBRDKAFKA), "m-0") == (True, True)  # its default is range,roundrobin


def test_a_stated_assignor_is_the_only_one():
    seen = replace(of_a_broker(), earlier_assignors=("cooperative-sticky",))
    for stated, is_exact in ((None, False), ("range", True)):
        played = simulate(seen, Plan(remove=("m-0",), what_if=WhatIf(assignor=stated)), draws=5)
        assert any(SEEN in text for text in played.caveats) is not is_exact
