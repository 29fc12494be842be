"""A consumer group (KIP-848) starts from a history in the state in which a live one does: a real Kafka with real
members, whose groups have joined, left and subscribed at random."""

import random
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pytest

from kgm.client import connect
from kgm.history.causes.session_timeouts import GivenSessions, SessionSource, SessionTimeout
from kgm.history.derive import derive
from kgm.history.folders import Reading, folders, raw_table
from kgm.history.store.final_state import final_groups
from kgm.history.store.query import RowFilter
from kgm.history.store.tables import TablesInMemory, open_store
from kgm.model.assignment import owners
from kgm.model.errors import NotFoundError
from kgm.operations.bounce.group import live_group
from kgm.simulation.bounce import simulate
from kgm.simulation.fleet import FleetPlan, group_costs
from kgm.simulation.plan.bounce_plan import Plan, Rolling
from tests.kafka.broker import DEFAULTS
from tests.kafka.members import JavaMembers, RdMembers
from tests.selection import first_seed
from tests.waiting import until

pytestmark = [pytest.mark.long, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]
#: Numbers that are 16 apart share a bucket of the sets that Kafka has of them, so that the past of a member matters.
TOPICS = {"starts-a": 37, "starts-b": 21}
GROUPS, ROUNDS = 6, 7
#: Groups that only grow, to a size at which a record of what a member has lets the broker's table grow, and no member's.
ONLY_GROWING = {0: 5, 1: 10}
SESSION_MS = int(DEFAULTS["group.consumer.session.timeout.ms"])
SEED = str(first_seed())
_starting = threading.Lock()


class Live(NamedTuple):
    snapshots: dict
    members: dict


def driven(kafka, pools, group, chance, size):
    """A group after some rounds in which members came and went, with some that remain; or one that has only grown to a
    size."""
    alive, topics = [], [*TOPICS]

    def start(number):
        instance_id = f"s{number}" if chance.random() < 0.6 else None
        subscribed = topics if chance.random() < 0.7 else topics[:1]
        with _starting:
            alive.append(
                chance.choice(pools).start(
                    group=group, topics=subscribed, protocol="consumer", instance_id=instance_id
                )
            )  # fmt: skip

    for number in range(3):
        start(number)
    with connect(kafka.bootstrap, timeout_ms=300_000) as cluster:
        until(lambda: is_stable(cluster, group, len(alive)), f"{group} is not stable", 60)
        for number in range(10, 10 + ROUNDS):
            if len(alive) == size:
                break
            if size is None and len(alive) > 2 and chance.random() < 0.5:
                alive.pop(chance.randrange(len(alive))).close()
            else:
                start(number)
            until(lambda: is_stable(cluster, group, len(alive)), f"{group} is not stable", 60)
    for member in alive:  # commits tell the names of topic ids
        member.commit()
    return alive


def is_stable(cluster, group, members):
    try:
        found = cluster.describe_group(group, offsets=False)
    except NotFoundError:  # no member has joined yet
        return False
    return found.state == "Stable" and len(found.members) == members


@pytest.fixture(scope="module")
def running(kafka):
    kafka.create_topics(TOPICS)
    with RdMembers(kafka.bootstrap) as rd, JavaMembers(kafka.bootstrap) as java:
        names = [f"starts-{SEED}-{number}" for number in range(GROUPS)]
        chances = [random.Random(f"{SEED}/{name}") for name in names]
        sizes = [ONLY_GROWING.get(number) for number in range(GROUPS)]
        with ThreadPoolExecutor(len(names)) as pool:
            everyone = list(pool.map(partial(driven, kafka, [rd, java]), names, chances, sizes))
        with connect(kafka.bootstrap, timeout_ms=60_000) as cluster:
            snapshots = {name: live_group(cluster, name).snapshot for name in names}
        yield Live(snapshots, dict(zip(names, everyone, strict=True)))


@pytest.fixture(scope="module")
def live(running):
    """Stable groups, as the broker describes them, by name."""
    return running.snapshots


@pytest.fixture(scope="module")
def segments(kafka, live, tmp_path_factory):
    folder = tmp_path_factory.mktemp("copied")
    for path in kafka.log_dir().glob("__consumer_offsets-*"):
        shutil.copytree(path, folder / path.name)
    return folder


@pytest.fixture(scope="module", params=["in process", pytest.param("spark", marks=pytest.mark.spark)])
def tables(request, segments, tmp_path_factory):
    """Both engines."""
    if request.param == "in process":
        session = SessionTimeout.exactly(SESSION_MS, SessionSource.BROKER)
        raw = raw_table(folders(segments), Reading())
        return TablesInMemory(tables=derive(raw, session_of_group=lambda _, __: session).tables)
    from kgm.pipeline import Source, SourceKind, build

    request.getfixturevalue("spark")
    store = tmp_path_factory.mktemp("store")
    source = Source(kind=SourceKind.SEGMENTS, path=segments)
    sessions = GivenSessions(default_ms=SESSION_MS)
    build(store, source=source, options=request.getfixturevalue("options"), sessions=sessions)
    return open_store(store)


def from_history(tables, group):
    ((found,),) = ([*final_groups(tables, RowFilter(group_ids=(group,)))],)
    assert found.unplayable is None, found.unplayable
    return found


def order(snapshot):
    """What a simulation starts with, of which nothing may differ."""
    snapshot = snapshot.in_listed_order()
    return (
        snapshot.state, snapshot.group_epoch, snapshot.assignment_epoch,
        sorted((topic.name, topic.partitions, topic.topic_id) for topic in snapshot.topics),
        [
            (
                each.member_id, each.group_instance_id, each.member_epoch, each.topics, each.client_id,
                each.client_library, each.rack, [*(each.listed_target or {"": ()}).items()],
            )
            for each in snapshot.members
        ],
    )  # fmt: skip


def test_the_group_is_the_one_that_is_live(live, tables):
    for name, snapshot in live.items():
        found = from_history(tables, name).snapshot
        assert found.knows_listed_order, SEED
        assert order(found) == order(snapshot), SEED


def told(prediction):
    return replace(prediction, caveats=())


@pytest.mark.long
def test_predictions_are_the_same(live, tables):
    exact = 0
    for name, snapshot in live.items():
        found = from_history(tables, name)
        assert found.snapshot.session_timeout_ms == snapshot.session_timeout_ms == SESSION_MS
        who = [each.identity for each in snapshot.members]
        static = [each.identity for each in snapshot.members if each.group_instance_id is not None]
        plans = [Plan(bounce=tuple(who), rolling=Rolling()), Plan(scale_in=(who[0],)), Plan(scale_in=(who[-1],))]
        plans += [Plan(bounce=(each,), restart_time_ms=60_000) for each in static[:1]]
        for plan in plans:
            expected, ours = (told(simulate(each, plan, draws=5)) for each in (snapshot, found.snapshot))
            assert ours == expected, (SEED, name, plan)
            exact += expected.exact and bool(expected.typical.generations)
        costs = {one.scenario: one for one in group_costs(found.to_json(), FleetPlan(scenarios=("rolling", "each")))}
        there = simulate(snapshot, Plan(bounce=tuple(sorted(who)), rolling=Rolling(), restart_time_ms=10_000), draws=5)
        assert costs["rolling"].exact == there.exact
        moved = there.typical.moved_partitions if there.ranges is None else there.ranges.moved_partitions.median
        assert costs["rolling"].moved_partitions.median == moved
    assert exact >= GROUPS


def test_an_older_store_is_not_exact_and_says_why(live, tables):
    """Its table of member states has none of the columns that tell an order."""
    (name, _) = max(live.items(), key=lambda item: len(item[1].members))
    table = tables.table("silver_member_state", RowFilter())
    older = table
    for column in ("target", "listed_offset", "listing_capacity"):
        place = older.schema.get_field_index(column)
        field = older.schema.field(place)
        older = older.set_column(place, field, pa.nulls(len(older), field.type))
    names = ("silver_group_epoch", "gold_event", "silver_topic", "silver_snapshot", "silver_member", "silver_seat")
    there = TablesInMemory(
        tables={"silver_member_state": older} | {each: tables.table(each, RowFilter()) for each in names}
    )
    (found,) = final_groups(there, RowFilter(group_ids=(name,)))
    (cost,) = group_costs(found.to_json(), FleetPlan(scenarios=("scale-in",)))
    assert cost.reason is None
    assert cost.exact is False
    assert any("order in which the broker lists" in caveat for caveat in cost.caveats)


def test_what_is_predicted_from_the_history_is_what_then_happens(kafka, running, segments):
    """A dynamic member of one group is closed."""
    tables = TablesInMemory(tables=derive(raw_table(folders(segments), Reading())).tables)
    found, leaver, predicted = next(
        (found, member, predicted)
        for name in running.snapshots
        for found in [from_history(tables, name).snapshot]
        for member in found.members
        if member.group_instance_id is None
        for predicted in [simulate(found, Plan(scale_in=(member.identity,)))]
        if predicted.exact
    )
    moved = {(move.topic, move.partition): move.owner_after for move in predicted.typical.moves}
    (process,) = [each for each in running.members[found.group_id] if each.member_id == leaver.member_id]
    process.close()
    with connect(kafka.bootstrap, timeout_ms=60_000) as cluster:
        until(lambda: is_stable(cluster, found.group_id, len(found.members) - 1), "the group is not stable", 60)
        after = cluster.describe_group(found.group_id, offsets=False)
    was, then = (owners({each.identity: each.assignment for each in group.members}) for group in (found, after))
    assert {place: owner for place, owner in then.items() if was[place] != owner} == moved
    assert after.group_epoch - found.group_epoch == predicted.typical.generations
