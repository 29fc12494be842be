"""The session timeout of consumer groups: given, or shown by the log; and what is said where nobody knows it."""

import random
from itertools import pairwise

import pyarrow as pa
import pytest

from kgm.history.causes.session_timeouts import GivenSessions, SessionEvidence, SessionSource, SessionTimeout
from kgm.history.derive import derive
from tests.history.test_derive import piecewise, same
from tests.history.truth.consumer_lives import GROUP, ConsumerWorld
from tests.history.truth.lives import TICK_MS


def evidence(*bounds, survived=0):
    shown = SessionEvidence()
    shown.survived(survived)
    for each in bounds:
        shown.add(*each)
    return shown


def test_expiries_that_agree_show_the_session_timeout():
    session = evidence((9_100, 14_100), (7_000, 12_000), (9_900, 14_900)).session()
    assert (session.ms, session.least_ms, session.most_ms, session.expiries) == (10_000, 9_900, 12_000, 3)
    assert session.text == "the session timeout is about 10 s, as 3 expiries in this log show"


@pytest.mark.parametrize(
    "shown",
    [
        evidence(),
        evidence((9_000, 14_000), (9_000, 14_000)),
        evidence((9_000, 14_000), (9_000, 14_000), (30_000, 35_000)),
        # As many departures of stopped members do not agree: they were removed.
        evidence((9_000, 14_000), (9_000, 14_000), (9_000, 14_000), (500, 5_500), (20_000, 25_000), (30_000, 35_000)),
        # A member that was away for longer has kept its place.
        evidence((9_000, 14_000), (9_000, 14_000), (9_000, 14_000), survived=20_000),
    ],
    ids=["none", "two", "two of three", "three of six", "survived"],
)
def test_what_does_not_agree_shows_nothing(shown):
    assert shown.session() is None


def test_the_oldest_expiries_do_not_count_after_a_change_of_the_setting():
    before, after = [(9_000, 14_000)] * 12, [(29_000, 34_000)] * 8
    assert evidence(*before).session().ms == 10_000
    assert evidence(*before, *after).session().ms == 30_000


def world(session_ms):
    """A world whose group has this session timeout."""
    return next(each for each in map(ConsumerWorld, range(500)) if each.session == session_ms and each.traffic)


def departures(tables):
    return [
        (row["end_cause"], row["end_confidence"])
        for row in sorted(tables["silver_seat"].to_pylist(), key=lambda row: row["from_offset"])
        if row["end_cause"] is not None
    ]


@pytest.fixture(scope="module")
def raw():
    """Of a group with a session timeout of 10 s: five members crash, one after the other, and an admin removes the one
    that has stopped 2 s before."""
    group = world(10_000)
    group.draw = random.Random(1)
    keeper, *others = (group.client(group, f"c{n}", None if n else "keeper", ["orders"]) for n in range(6))
    removed = group.client(group, "last", "removed", ["orders"])
    group.clients = [keeper, *others, removed]
    for client in group.clients:
        client.start()
        group.run(2_000)
    group.run(20_000)
    for client in others:
        client.crash()
        group.run(30_000 + 5 * TICK_MS)
    removed.close()
    group.run(2_000)
    group.log.leave(("", "removed"), group=GROUP)
    group.run(20_000)
    return group.log.raw()


def test_without_a_session_timeout_nothing_is_more_than_possible(raw):
    ends = departures(derive(raw).tables)
    assert ends == [
        *[("session-expiry", "possible")] * 3,
        # From here on the log shows it.
        *[("session-expiry", "likely")] * 2,
        ("admin-removal", "likely"),
    ]


def test_the_evidence_says_where_the_session_timeout_is_from(raw):
    rows = derive(raw).tables["gold_rebalance"].to_pylist()
    lines = [line for row in rows for line in row["evidence"] if " is gone; " in line]
    assert ["not known" in line for line in lines] == [True] * 3 + [False] * 3
    for line, count in zip(lines[3:], (3, 4, 5), strict=True):
        assert f"the session timeout is about 10 s, as {count} expiries in this log show" in line
    given = derive(raw, session_of_group=GivenSessions(default_ms=45_000, by_group={GROUP: 10_000})).tables
    assert departures(given) == [*[("session-expiry", "likely")] * 5, ("admin-removal", "likely")]
    assert all(
        "the session timeout is 10 s (given)" in line
        for row in given["gold_rebalance"].to_pylist()
        for line in row["evidence"]
        if " is gone; " in line
    )
    assert {row["session_timeout_ms"] for row in given["silver_seat"].to_pylist()} == {10_000}
    assert derive(raw).tables["silver_seat"].to_pylist()[0]["session_timeout_ms"] is None


def moved_at(raw, at_ms):
    """The log of a partition of which another coordinator became the leader at this time."""
    rows = [row | {"leader_epoch": int(row["timestamp"] >= at_ms)} for row in raw.to_pylist()]
    return pa.Table.from_pylist(rows, schema=raw.schema)


def test_a_coordinator_that_loads_the_group_starts_its_sessions_again(raw):
    """The fourth member expired just after another coordinator had loaded the group."""
    sessions = GivenSessions(by_group={GROUP: 10_000})
    before = derive(raw, session_of_group=sessions).tables
    gone_at = [
        row["to_timestamp"]
        for row in sorted(before["silver_seat"].to_pylist(), key=lambda row: row["from_offset"])
        if row["end_cause"] is not None
    ]
    tables = derive(moved_at(raw, gone_at[3] - 500), session_of_group=sessions).tables
    ends = departures(tables)
    assert ends[3] == ("session-expiry", "possible")
    assert ends[:3] + ends[4:] == departures(before)[:3] + departures(before)[4:]
    noted = [
        row["timestamp"]
        for row in tables["gold_rebalance"].to_pylist()
        if any(line.startswith("the leader epoch rose") for line in row["evidence"])
    ]
    assert noted == [gone_at[3]]


def asked(session_ms):
    return lambda _group, _type: SessionTimeout.exactly(session_ms, SessionSource.BROKER)


@pytest.mark.parametrize("now_ms", [6_000, 30_000, 45_000])
def test_what_the_broker_has_now_may_not_be_what_the_members_had(raw, now_ms):
    """They crashed while it was 10 s: nothing is likely that holds only with the present setting."""
    ends = departures(derive(raw, session_of_group=asked(now_ms)).tables)
    assert {sure for _, sure in ends} == {"possible"}
    # From here on the log shows it.
    assert ends[3:] == [*[("session-expiry", "possible")] * 2, ("admin-removal", "possible")]
    rows = derive(raw, session_of_group=asked(now_ms)).tables["gold_rebalance"].to_pylist()
    lines = [line for row in rows for line in row["evidence"] if " is gone; " in line]
    assert all("(asked of the broker), and may have been another" in line for line in lines[:3])
    assert "the session timeout was about 10 s, as 3 expiries in this log show, and is another now" in lines[3]


def test_what_the_broker_has_and_the_log_shows_is_what_the_members_had(raw):
    ends = departures(derive(raw, session_of_group=asked(10_000)).tables)
    assert ends == departures(derive(raw).tables)
    given = departures(derive(raw, session_of_group=GivenSessions(by_group={GROUP: 10_000})).tables)
    assert [cause for cause, _ in ends] == [cause for cause, _ in given]


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.slow
def test_what_a_log_shows_of_its_sessions_is_the_same_however_it_is_cut(seed):
    log, _ = ConsumerWorld(seed).play(8)
    draw = random.Random(seed)
    cuts = sorted(draw.sample(range(1, len(log)), 12))
    assert all(one < other for one, other in pairwise(cuts))
    same(derive(log).tables, piecewise(log, cuts, again=draw.randrange(5)))


def test_members_that_an_admin_removes_with_one_request_are_certainly_removed():
    group = world(45_000)
    clients = group.clients = [group.client(group, f"c{n}", f"i{n}", ["orders"]) for n in range(3)]
    for client in clients:
        client.start()
        group.run(2_000)
    group.run(10_000)
    for client in clients[:2]:
        client.crash()
    group.run(1_000)
    group.log.leave(("", "i0"), ("", "i1"), group=GROUP)
    group.run(2_000)
    rows = derive(group.log.raw()).tables["gold_rebalance"].to_pylist()
    assert (rows[-1]["cause"], rows[-1]["confidence"]) == ("admin-removal", "certain")


def test_a_static_member_that_leaves_by_itself_is_not_taken_for_one_that_an_admin_removed():
    """With LEAVE_GROUP (KIP-1092)."""
    group = world(45_000)
    clients = group.clients = [group.client(group, f"c{n}", f"i{n}", ["orders"]) for n in range(2)]
    for client in clients:
        client.start()
        group.run(2_000)
    group.run(10_000)
    clients[0].close(leaves=True)
    group.run(10_000)
    given = GivenSessions(default_ms=45_000)
    rows = derive(group.log.raw(), session_of_group=given).tables["gold_rebalance"].to_pylist()
    assert (rows[-1]["cause"], rows[-1]["confidence"]) == ("leave", "possible")


def test_a_member_that_was_fenced_and_comes_again_has_not_certainly_joined():
    group = world(10_000)
    clients = group.clients = [group.client(group, f"c{n}", None, ["orders"]) for n in range(2)]
    for client in clients:
        client.start()
        group.run(2_000)
    group.run(10_000)
    clients[1].paused = True
    group.run(900_000)
    clients[1].paused = False
    group.run(10_000)
    rows = derive(group.log.raw()).tables["gold_rebalance"].to_pylist()
    assert [(row["cause"], row["confidence"]) for row in rows][-1] == ("join", "possible")
    assert "was a member before" in rows[-1]["evidence"][0]
