"""Predictions held against history: real groups up to a moment, the bounce that then happened, and what came of it.

The groups, the bounces and their times are those of tests/data/offsets-log (story.jsonl says what was done, the
segments what the broker wrote). A bounce counts if nothing else was done to the group around it."""

from collections import Counter, defaultdict
from dataclasses import dataclass, replace

import pytest

from kgm.history.in_process import derive_source
from kgm.history.store.final_state import final_groups
from kgm.history.store.query import RowFilter
from kgm.model.assignment import owners
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.removal.preview import expected_moves
from kgm.simulation.bounce import simulate
from kgm.simulation.plan.bounce_plan import Plan, Stop
from tests.cli.commands.history.oracle import story
from tests.records.real_logs import DATA

pytestmark = pytest.mark.slow
STOPS = {"close": Stop.CLEAN, "sigkill": Stop.CRASH}
DOINGS = {"start", "admin_remove_members", "subscribe", "unsubscribe", "enforce", *STOPS}
#: After a session that expired, until the group has come to rest.
SETTLING_MS = 15_000
#: Groups that were driven at random: instance ids twice, and topics that grow, in the middle of a bounce.
CHAOS = "cha-"
CONSUMER_SESSION_MS = 45_000
BROKER = {"group.initial.rebalance.delay.ms": "0"}


@dataclass(frozen=True)
class Bounce:
    """What was done: who stopped when and how, when it was started again, and until when nothing else was done."""

    group: str
    member: str
    instance: str | None
    how: Stop
    stopped: int
    started: int
    quiet_until: int


def bounces():
    by_group = defaultdict(list)
    for line in story():
        if line["src"] == "driver" and line["action"] in DOINGS and not line["group"].startswith(CHAOS):
            by_group[line["group"]].append(line)
    for group, lines in by_group.items():
        down = set()
        for line, following, *rest in zip(lines, lines[1:], [*lines[2:], None], strict=False):
            others = down - {line["member"]} if "member" in line else down
            is_bounce = (
                line["action"] in STOPS
                and following["action"] == "start"
                and following["member"] == line["member"]
                and "op" not in (line.get("detail") or {})
            )
            # Members that were stopped before may expire in the middle of it.
            if is_bounce and not others:
                yield Bounce(
                    group=group, member=line["member"], instance=line.get("instance"), how=STOPS[line["action"]],
                    stopped=line["ts"], started=following["ts"], quiet_until=rest[0]["ts"] if rest[0] else 1 << 50,
                )  # fmt: skip
            if line["action"] in STOPS:
                down.add(line["member"])
            elif line["action"] == "start":
                down.discard(line["member"])


@pytest.fixture(scope="module")
def tables():
    return derive_source("segments", DATA / "plain", most_bytes=1 << 30)


def group_at(tables, group, at_ms) -> GroupSnapshot | None:
    found = list(final_groups(tables, RowFilter(group_ids=(group,), until_ms=at_ms)))
    return found[0].snapshot if found else None


def moves(before, after):
    """How many partitions have another owner, of those that had one and have one."""
    was, then = (owners({each.identity: each.assignment for each in group.members}) for group in (before, after))
    return sum(was[place] != then[place] for place in was.keys() & then.keys())


def who(snapshot, bounce):
    """The identity of the member that was stopped."""
    if bounce.instance is not None:
        return bounce.instance
    names = (bounce.member, f"{bounce.group}-{bounce.member}", f"java-{bounce.member}")
    found = [each.identity for each in snapshot.members if each.client_id in names]
    return found[0] if len(found) == 1 else None


def played(tables, kind):
    """(bounce, before, after, what was predicted) for each bounce of a group that was at rest."""
    for bounce in bounces():
        before = group_at(tables, bounce.group, bounce.stopped)
        if before is None or before.type != kind or before.state != "Stable" or who(before, bounce) is None:
            continue
        if kind == "consumer" and any(member.protocol == "classic" for member in before.members):
            continue
        session = before.session_timeout_ms or CONSUMER_SESSION_MS
        at_rest = (
            SETTLING_MS if bounce.started - bounce.stopped > session or kind == "consumer" else session + SETTLING_MS
        )
        after = group_at(tables, bounce.group, min(bounce.quiet_until, bounce.started + at_rest))
        if after is None or (after.type, after.assignor) != (kind, before.assignor):
            continue  # it came back with another assignor, or as a group of the other protocol
        plan = Plan(
            bounce=(who(before, bounce),), stop=bounce.how, restart_time_ms=bounce.started - bounce.stopped,
            settings=BROKER,
        )  # fmt: skip
        yield bounce, before, after, simulate(before, plan, draws=20)


@pytest.mark.long
def test_what_was_predicted_from_the_history_is_what_then_happened(tables):
    seen, wrong = Counter(), []
    for bounce, before, after, predicted in played(tables, "classic"):
        generations, moved = after.generation - before.generation, moves(before, after)
        typical, ranges = predicted.typical, predicted.ranges
        if predicted.exact:
            fits = (generations, moved) == (typical.generations, typical.moved_partitions)
        else:
            fits = (
                ranges.generations.min <= generations <= ranges.generations.max
                and ranges.moved_partitions.min <= moved <= ranges.moved_partitions.max
            )
        seen["static" if bounce.instance else "dynamic", "exact" if predicted.exact else "ranges"] += 1
        if not fits:
            wrong.append((bounce, generations, moved, predicted.to_json()["ranges"] or typical.without_times))
    assert wrong == []
    # Of two more the client library is not known, and some leave when they are closed.
    assert seen["static", "exact"] == 17
    assert seen["dynamic", "ranges"] >= 25


@pytest.mark.long
def test_so_are_bounces_of_consumer_groups(tables):
    seen, wrong = Counter(), []
    for bounce, before, after, predicted in played(tables, "consumer"):
        epochs, moved = after.group_epoch - before.group_epoch, moves(before, after)
        typical, ranges = predicted.typical, predicted.ranges
        low, high = (typical.moved_partitions,) * 2
        if ranges is not None:
            low, high = ranges.moved_partitions.min, ranges.moved_partitions.max
        seen["static" if bounce.instance else "dynamic"] += 1
        if epochs != typical.generations or not low <= moved <= high:
            wrong.append((bounce, epochs, moved, predicted.to_json()["ranges"] or typical.without_times))
    assert wrong == []
    assert seen["static"] >= 4
    assert seen["dynamic"] >= 10


def test_what_a_removal_would_move_is_what_an_expiry_moved(tables):
    """To who stays it is the same whether a member of a consumer group is removed or its session ends."""
    seen = []
    for bounce in bounces():
        before, gone = (group_at(tables, bounce.group, at) for at in (bounce.stopped, bounce.started))
        expired = bounce.started - bounce.stopped > CONSUMER_SESSION_MS
        if expired and before is not None and before.type == "consumer" and gone is not None and gone.state == "Stable":
            absent = [each.member_id for each in before.members if each.identity == who(before, bounce)]
            before = replace(before, assignor=before.assignor or "uniform")  # the broker's first
            expected = expected_moves(before, absent).moves
            was, then = (owners({each.identity: each.assignment for each in group.members}) for group in (before, gone))
            really = {(*place, was[place], then[place]) for place in was if was[place] != then[place]}
            assert {(m.topic, m.partition, m.owner_before, m.owner_after) for m in expected} == really, bounce
            seen.append(len({place[0] for place in was}))
    assert sorted(seen) == [1, 2]
