"""Advice from the log of a real broker, against the same real clients restarted with group instance ids."""

from pathlib import Path

import pytest

from kgm.history.derive import derive
from kgm.history.store.tables import HistoryOrigin, TablesInMemory
from kgm.operations.history.advice import advise
from kgm.operations.history.source import History, HistorySource
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.record import decode_record
from kgm.simulation.replay.changes import GroupChangeKind
from tests.history.truth.driven import Broker
from tests.kafka.members import JavaMembers, RdMembers, wait_settled
from tests.operations.history.advice.driven_twice import count
from tests.waiting import until

pytestmark = [pytest.mark.long, pytest.mark.scenes, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]

PARTITIONS = 6
OPTIONS = {
    "session_timeout_ms": 30_000, "assignor": "range", "topics": ["events"],
    "config": {"enable.auto.commit": "true", "auto.commit.interval.ms": "300"},
}  # fmt: skip


def restart_each(rd, group, *, is_static=False, heartbeat_ms=3_000):
    """Three members come one by one; then each is closed and started again."""
    config = OPTIONS["config"] | {"heartbeat.interval.ms": str(heartbeat_ms)}

    def start(name):
        alive[name] = rd.start(
            group=group, instance_id=f"{group}-{name}" if is_static else None, client_id=f"{group}-{name}",
            **OPTIONS | {"config": config},
        )  # fmt: skip
        alive[name].wait_assigned(timeout_s=60)
        wait_settled(list(alive.values()), PARTITIONS, timeout_s=60)

    alive = {}
    for name in ("a", "b", "c"):
        start(name)
    for name in ("a", "b", "c"):
        alive.pop(name).close()
        if not is_static:
            wait_settled(list(alive.values()), PARTITIONS, timeout_s=60)
        start(name)
    for member in alive.values():
        member.crash()


def records_of(raw, group):
    """Until the clients were killed: the sessions of all of them end together."""
    for row in raw.to_pylist():
        if row["key"] is not None and row["value"] is not None:
            record = decode_record(row["key"], row["value"])
            if isinstance(record.key, GroupMetadataKey) and record.key.group == group and record.value.members:
                yield row["timestamp"], row["key"], row["value"]


def test_static_membership():
    # With quick heartbeats a member leaves and is back within 0.2 s, and both are rebalances.
    heartbeats_ms = {"dynamic": 3_000, "quick": 100, "quicker": 30}
    with Broker({"events": PARTITIONS}) as broker:
        with RdMembers(broker.cluster.bootstrap) as rd:
            for group, heartbeat_ms in heartbeats_ms.items():
                restart_each(rd, group, heartbeat_ms=heartbeat_ms)
            restart_each(rd, "static", is_static=True)
        broker.quiet()
        raw = broker.raw()
    tables = TablesInMemory(tables=derive(raw).tables, origin=HistoryOrigin())
    history = History(source=HistorySource(path=Path("records")), tables=tables)
    for group in heartbeats_ms:
        is_advised(history, group, count(records_of(raw, group)), count(records_of(raw, "static")))


def is_advised(history, group, before, after):
    """Static membership would have spared the group what it spared the other."""
    rows = history.rebalances(group)
    report = advise(history, group, rows)
    found = [each for each in report.advice if each.change.kind is GroupChangeKind.STATIC_MEMBERSHIP]
    assert len(found) == 1, "\n".join(map(str, [report, *rows]))
    (each,) = found
    assert before.rebalances - after.rebalances == 6, "each restart was a leave and a join"
    # Played again, a member may be back before the others have noticed that it left: one rebalance less to spare. Or, on
    # a machine that was busy, it may start in a rebalance of its own: one more.
    assert 5 <= each.gain.rebalances.least <= 6 <= each.gain.rebalances.most <= 7, each
    assert each.gain.moves.least <= before.moves - after.moves <= each.gain.moves.most, each


STALL_MS, SHORT_MS = 9_000, 6_000


def stall_some(java, group, interval_ms):
    """Three members come one by one; then two applications stall, one after the other."""
    alive = {}
    for name in ("a", "b", "c"):
        alive[name] = java.start(
            group=group, client_id=f"{group}-{name}", max_poll_interval_ms=interval_ms, topics=["events"],
            session_timeout_ms=30_000, assignor="range",
        )  # fmt: skip
        wait_settled(list(alive.values()), PARTITIONS, timeout_s=60)
    for name in ("b", "a"):
        before, seen = len(alive[name].events), len(alive[name].of_kind("polled"))
        alive[name].stall(STALL_MS)
        # It is over once it polls again; if the member has left, it has to be assigned again.
        until(lambda name=name, seen=seen: len(alive[name].of_kind("polled")) > seen + 1, f"{name} polls again", 60)
        if interval_ms < STALL_MS:
            alive[name].wait_event("assigned", after=before, timeout_s=60)
        wait_settled(list(alive.values()), PARTITIONS, timeout_s=60)


def test_a_longer_max_poll_interval(tmp_path):
    """Members leave because their applications stall; with the interval that is advised they do not."""
    with Broker({"events": PARTITIONS}) as broker, JavaMembers(broker.cluster.bootstrap) as java:
        stall_some(java, "short", SHORT_MS)
        lines, raw = broker.log, broker.raw()
        log = tmp_path / "server.log"
        log.write_text("\n".join(lines))
        tables = TablesInMemory(tables=derive(raw).tables, origin=HistoryOrigin())
        history = History(source=HistorySource(path=Path("records")), tables=tables, broker_logs=(log,))
        rows = history.rebalances("short")
        report = advise(history, "short", rows)
        (each,) = [each for each in report.advice if each.change.kind is GroupChangeKind.MAX_POLL_INTERVAL]
        assert each.change.max_poll_interval_ms > STALL_MS
        stall_some(java, "long", each.change.max_poll_interval_ms)
        after = broker.raw()
    before, spared = count(records_of(raw, "short")), count(records_of(after, "long"))
    assert [row.cause for row in rows].count("max-poll") == 2
    assert before.rebalances - spared.rebalances == 4, "each stall was a leave and a join"
    # Played again, on a machine that was busy, a member may start in a rebalance of its own or in that of another.
    assert each.gain.rebalances.least <= 4 <= each.gain.rebalances.most <= 5, each
    moves = before.moves - spared.moves
    assert each.gain.moves.least <= moves <= each.gain.moves.most, each
    assert each.bound == "range" or (each.gain.rebalances.is_exact and each.gain.moves.is_exact), each
    assert each.causes == ("max-poll",)
    assert "max.poll.interval.ms at 30s instead of 6s" in each.text
