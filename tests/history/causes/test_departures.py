"""How a member went, where one number decides; what really happened to members is held against this in truth/."""

from dataclasses import replace

import pyarrow as pa
import pytest

from kgm.history.causes.classic_causes import departure
from kgm.history.causes.consumer_causes import ConsumerAbsence, consumer_departure
from kgm.history.causes.session_timeouts import GivenSessions, SessionSource, SessionTimeout, at_departure
from kgm.history.causes.verdict import Cause, Confidence, MissingMember
from kgm.history.derive import derive
from kgm.history.facts.commit_windows import CommitTimes, commit_windows
from kgm.history.reconstruct.classic_snapshots import ChangeKind, MemberChange, SnapshotMember
from kgm.history.schema import SILVER_COMMIT
from kgm.records.messages.group_metadata_value import MemberMetadata
from tests.history.truth.consumer_lives import ConsumerWorld
from tests.history.truth.lives import World
from tests.history.truth.test_cut_logs import classic_world, rebalances

AT = 1_700_000_000_000
SESSION_MS = 45_000


def gone(
    silence_ms, *, cadence_ms=5_000, instance_id=None, max_poll_ms=300_000, in_transaction=False, session_ms=SESSION_MS
):
    """A member that was gone at AT and had committed so long before."""
    metadata = MemberMetadata(
        member_id="m", group_instance_id=instance_id, client_id="c", session_timeout=session_ms, rebalance_timeout=max_poll_ms
    )  # fmt: skip
    change = MemberChange(
        offset=1, timestamp=AT, generation=2, kind=ChangeKind.LEFT, member=SnapshotMember(metadata, frozenset("t"), None),
        old_member_id=None, absorbed=None, complete=True,
    )  # fmt: skip
    return MissingMember(
        change=change, last_commit=AT - silence_ms, cadence_ms=cadence_ms, in_transaction=in_transaction
    )  # fmt: skip


def verdict(departed):
    return departed.cause, departed.confidence


LEFT, EXPIRED = (Cause.LEAVE, Confidence.LIKELY), (Cause.SESSION_EXPIRY, Confidence.LIKELY)


@pytest.mark.parametrize(("silence_ms", "expected"), [(40_000, LEFT), (44_400, LEFT), (44_995, EXPIRED)])
def test_a_commit_that_was_written_a_moment_late(silence_ms, expected):
    """The session counts from the request; a busy broker writes its record up to half a second later."""
    assert verdict(departure(gone(silence_ms), AT)) == expected


@pytest.mark.parametrize(
    ("silence_ms", "expected"), [(0, LEFT), (-300, LEFT), (-5_000, (Cause.DEPARTURE, Confidence.POSSIBLE))]
)
def test_a_commit_with_a_later_time_shows_nothing(silence_ms, expected):
    """The clock of the next coordinator is behind that of the one before."""
    departed = departure(gone(silence_ms), AT)
    assert verdict(departed) == expected
    assert "committed -" not in departed.evidence


@pytest.mark.parametrize(("silence_ms", "expected"), [(41_000, LEFT), (43_000, EXPIRED)])
def test_a_commit_in_a_transaction_extends_no_session(silence_ms, expected):
    """The last heartbeat may be three seconds older."""
    assert verdict(departure(gone(silence_ms, in_transaction=True), AT)) == expected
    assert verdict(departure(gone(silence_ms), AT)) == LEFT


@pytest.mark.parametrize("instance_id", [None, "i"])
def test_a_session_that_started_again_at_another_coordinator_is_no_proof(instance_id):
    """The new coordinator would have waited for a whole session; a member removed before was as silent."""
    missing = gone(46_000, instance_id=instance_id)
    assert verdict(departure(missing, AT)) == EXPIRED
    moved = departure(replace(missing, coordinator_moved=True), AT)
    assert verdict(moved) == (Cause.SESSION_EXPIRY, Confidence.POSSIBLE)
    assert "the coordinator has moved since" in moved.evidence
    # A commit extends the session wherever it is.
    assert verdict(departure(replace(gone(20_000), coordinator_moved=True), AT)) == LEFT


@pytest.mark.parametrize(
    ("away_ms", "unrevoked_ms", "silence_ms", "instance_id", "expected", "moved"),
    [
        # Removed less than a session after the broker was back.
        (None, None, 44_000, None, EXPIRED, (Cause.SESSION_EXPIRY, Confidence.POSSIBLE)),
        (None, None, 44_000, "i", EXPIRED, (Cause.SESSION_EXPIRY, Confidence.POSSIBLE)),
        (43_000, None, 60_000, "i", EXPIRED, (Cause.SESSION_EXPIRY, Confidence.POSSIBLE)),
        # Expired one session after the broker was back.
        (None, 60_000, 62_000, None, (Cause.MAX_POLL, Confidence.LIKELY), (Cause.SESSION_EXPIRY, Confidence.POSSIBLE)),
        (None, 310_000, 312_000, None, (Cause.MAX_POLL, Confidence.LIKELY), (Cause.MAX_POLL, Confidence.POSSIBLE)),
        # A session that starts again is never over sooner.
        (None, None, 20_000, None, LEFT, LEFT),
        (20_000, None, 60_000, "i", (Cause.REMOVAL, Confidence.LIKELY), (Cause.REMOVAL, Confidence.LIKELY)),
    ],
)
def test_a_session_that_started_again_in_the_consumer_protocol(
    away_ms, unrevoked_ms, silence_ms, instance_id, expected, moved
):
    missing = gone(silence_ms, instance_id=instance_id)
    away, unrevoked = (None if ms is None else AT - ms for ms in (away_ms, unrevoked_ms))
    absence = ConsumerAbsence(away=away, heard=AT - 320_000, unrevoked=unrevoked)
    session = SessionTimeout.exactly(SESSION_MS, SessionSource.GIVEN)
    assert verdict(consumer_departure(missing, AT, absence, session)) == expected
    after = consumer_departure(missing, AT, replace(absence, led_since=AT - 10_000), session)
    assert verdict(after) == moved
    assert ("the coordinator has moved since" in after.evidence) == (expected != moved)
    assert replace(absence, led_since=AT - 10_000).session_bounds(missing, AT) is None
    # A coordinator that loaded the group before the member's last sign changes nothing.
    assert verdict(consumer_departure(missing, AT, replace(absence, led_since=AT - 315_000), session)) == expected


@pytest.mark.parametrize(
    ("silence_ms", "cadence_ms", "instance_id", "expected"),
    [
        (25_000, 1_000, None, LEFT),
        (30_500, 1_000, None, (Cause.MAX_POLL, Confidence.POSSIBLE)),
        (33_000, 1_000, None, (Cause.MAX_POLL, Confidence.POSSIBLE)),
        # Too long after the interval, or too few commits to be missed: it may have been closed as well.
        (42_000, 1_000, None, (Cause.LEAVE, Confidence.POSSIBLE)),
        (30_500, None, None, (Cause.LEAVE, Confidence.POSSIBLE)),
        (30_500, 20_000, None, (Cause.LEAVE, Confidence.POSSIBLE)),
        # A static member does not leave by itself.
        (30_500, 1_000, "i", (Cause.REMOVAL, Confidence.LIKELY)),
    ],
)
def test_a_poll_interval_that_is_shorter_than_the_session(silence_ms, cadence_ms, instance_id, expected):
    """The session of a member that does not poll goes on, and the client leaves."""
    missing = gone(silence_ms, cadence_ms=cadence_ms, max_poll_ms=30_000, instance_id=instance_id)
    departed = departure(missing, AT)
    assert verdict(departed) == expected
    assert ("max.poll.interval.ms is 30 s" in departed.evidence) == (
        expected[1] is Confidence.POSSIBLE and instance_id is None
    )


def test_a_member_that_had_just_joined_left_before_its_poll_interval():
    missing = replace(gone(50_000, cadence_ms=1_000, max_poll_ms=30_000), joined=AT - 5_000)
    assert verdict(departure(missing, AT)) == LEFT


@pytest.mark.parametrize("transactional", [False, True])
def test_which_commits_are_in_transactions(transactional):
    row = {
        "partition": 0, "leader_epoch": 0, "group_id": "g", "topic": "t", "topic_partition": 3, "tombstone": False,
        "committed_offset": 1,
    }  # fmt: skip
    rows = [
        row | {"offset": 1, "timestamp": AT, "txn": None if transactional else "committed", "visible_offset": 1},
        row | {"offset": 2, "timestamp": AT + 9, "txn": "committed" if transactional else None, "visible_offset": 2},
    ]
    table = pa.Table.from_pylist(rows, schema=SILVER_COMMIT)
    assert commit_windows(table, {"other"}) == {}
    commits = commit_windows(table, {"g"})["g"]
    assert [window.in_transaction for window in commits.windows([2])[0]] == [transactional]
    times = CommitTimes([])
    for (window,) in commits.windows([1]):
        times.add(window)
    assert times.last([("t", 3)]) == AT + 9
    assert times.last_is_in_transaction([("t", 3), ("t", 4)]) is transactional
    assert times.last_is_in_transaction([("t", 4)]) is False


def test_an_older_store_does_not_know_of_transactions():
    times = CommitTimes([("t", 0, [AT, AT + 10_000, 3])])
    assert times.last_is_in_transaction([("t", 0)]) is False
    assert times.cadence([("t", 0)]) == 5_000


@pytest.mark.parametrize("consumer", [False, True])
@pytest.mark.parametrize(
    ("instance_id", "max_poll_ms", "confidence"),
    [(None, 60_000, Confidence.POSSIBLE), (None, 300_000, Confidence.LIKELY), ("i", 60_000, Confidence.LIKELY)],
)
def test_a_member_that_does_not_poll_may_leave_when_its_session_may_expire(
    consumer, instance_id, max_poll_ms, confidence
):
    """After max.poll.interval.ms a dynamic member leaves by itself, which looks like an expiry that shows late."""
    missing = gone(59_000, max_poll_ms=max_poll_ms, instance_id=instance_id)
    if consumer:
        absence = ConsumerAbsence(away=None, heard=AT - 100_000, unrevoked=None)
        departed = consumer_departure(missing, AT, absence, SessionTimeout.exactly(SESSION_MS, SessionSource.GIVEN))
    else:
        departed = departure(missing, AT)
    assert verdict(departed) == (Cause.SESSION_EXPIRY, confidence)
    assert ("max.poll.interval.ms" in departed.evidence) == (confidence is Confidence.POSSIBLE)


@pytest.mark.parametrize(
    ("session_ms", "away_ms", "expected"),
    [
        (9_000, 2_000, (Cause.REMOVAL, Confidence.LIKELY)),
        (9_000, 3_500, (Cause.SESSION_EXPIRY, Confidence.POSSIBLE)),
        (9_000, 8_000, EXPIRED),
        (45_000, 35_000, (Cause.REMOVAL, Confidence.LIKELY)),
        (45_000, 40_500, EXPIRED),
    ],
)
def test_a_static_member_that_stopped_before_its_last_heartbeats_session_can_be_over(session_ms, away_ms, expected):
    """Heartbeats are 5 s apart by default, and much less where sessions are short."""
    absence = ConsumerAbsence(away=AT - away_ms, heard=AT - 60_000, unrevoked=None)
    session = SessionTimeout.exactly(session_ms, SessionSource.GIVEN)
    assert verdict(consumer_departure(gone(60_000, instance_id="i"), AT, absence, session)) == expected


@pytest.mark.parametrize(
    ("session_ms", "silence_ms", "expected"),
    [
        (6_000, 900, LEFT),
        (6_000, 1_200, (Cause.SESSION_EXPIRY, Confidence.POSSIBLE)),
        (6_000, 4_500, EXPIRED),
        (45_000, 39_000, LEFT),
        (45_000, 41_000, EXPIRED),
    ],
)
def test_a_dynamic_member_of_a_short_session(session_ms, silence_ms, expected):
    absence = ConsumerAbsence(away=None, heard=AT - 60_000, unrevoked=None)
    session = SessionTimeout.exactly(session_ms, SessionSource.GIVEN)
    assert verdict(consumer_departure(gone(silence_ms, cadence_ms=800), AT, absence, session)) == expected


@pytest.mark.parametrize(
    ("session_ms", "cadence_ms", "confidence"),
    [(45_000, 5_000, Confidence.LIKELY), (10_000, 5_000, Confidence.POSSIBLE), (10_000, 300, Confidence.LIKELY)],
)
def test_a_static_member_of_a_short_session_may_have_been_removed_before_it_was_over(
    session_ms, cadence_ms, confidence
):
    """From the end of the join phase it cannot be told, which may be a heartbeat later, where it commits rarely."""
    missing = gone(session_ms + 3_000, cadence_ms=cadence_ms, instance_id="i", session_ms=session_ms)
    departed = departure(missing, AT)
    assert verdict(departed) == (Cause.SESSION_EXPIRY, confidence)
    assert ("an admin may have removed it" in departed.evidence) == (confidence is Confidence.POSSIBLE)


SESSION = SessionTimeout.exactly(6_000, SessionSource.GIVEN)
MAX_POLL = (Cause.MAX_POLL, Confidence.POSSIBLE)


@pytest.mark.parametrize(
    ("silence_ms", "instance_id", "expected"),
    [
        (29_000, None, (Cause.SESSION_EXPIRY, Confidence.POSSIBLE)),
        (30_500, None, MAX_POLL),
        (30_500, "i", (Cause.SESSION_EXPIRY, Confidence.POSSIBLE)),
        (40_000, None, (Cause.SESSION_EXPIRY, Confidence.POSSIBLE)),
    ],
)
def test_a_silence_as_long_as_the_poll_interval(silence_ms, instance_id, expected):
    """Of a member whose session would have expired long before, had it sent no heartbeats."""
    missing = gone(silence_ms, cadence_ms=500, max_poll_ms=30_000, instance_id=instance_id)
    absence = ConsumerAbsence(away=None, heard=AT - 60_000, unrevoked=None)
    departed = consumer_departure(missing, AT, absence, SESSION)
    assert verdict(departed) == expected
    assert ("max.poll.interval.ms is 30 s" in departed.evidence) == (expected == MAX_POLL)


@pytest.mark.parametrize(
    ("asked_ms", "expected"), [(29_000, (Cause.MAX_POLL, Confidence.LIKELY)), (7_000, (Cause.LEAVE, Confidence.LIKELY))]
)
def test_a_member_that_did_not_revoke_although_it_sent_heartbeats(asked_ms, expected):
    missing = gone(900, cadence_ms=5_000, max_poll_ms=30_000)
    absence = ConsumerAbsence(away=None, heard=AT - 60_000, unrevoked=AT - asked_ms)
    assert verdict(consumer_departure(missing, AT, absence, SESSION)) == expected


@pytest.mark.parametrize(
    ("silence_ms", "expected"),
    [(400, LEFT), (6_400, (Cause.LEAVE, Confidence.POSSIBLE)), (30_000, (Cause.SESSION_EXPIRY, Confidence.POSSIBLE))],
)
def test_a_session_timeout_that_was_read_later(silence_ms, expected):
    """A member that was heard from a moment ago did not expire, however long sessions were."""
    session = at_departure(SessionTimeout.exactly(30_000, SessionSource.BROKER), None)
    absence = ConsumerAbsence(away=None, heard=AT - 60_000, unrevoked=None)
    assert verdict(consumer_departure(gone(silence_ms, cadence_ms=500), AT, absence, session)) == expected


def test_how_a_member_left_is_not_certain_because_the_group_is_empty():
    """The record proves that all are gone, and not how: a session that expired is a matter of times."""
    world, (static,) = classic_world(("static", "s"))
    static.start()
    world.run(20_000)
    static.crash()
    world.run(120_000)
    raw = world.log.raw()
    (departure_of,) = [
        row for row in derive(raw).tables["silver_seat"].to_pylist() if row["end_cause"] is not None
    ]  # fmt: skip
    assert (departure_of["end_cause"], departure_of["end_confidence"]) == ("session-expiry", "likely")
    assert rebalances(raw)[-1] == ("all-gone", "likely", ["static"])


def _world(consumer):
    """A world that commits every second, with a session timeout of 30 s and partitions for two members."""
    worlds = map(ConsumerWorld if consumer else World, range(500))
    usual = (each for each in worlds if each.traffic and not each.cooperative and each.partitions["orders"] > 2)
    return next(each for each in usual if (each.session, each.cadence) == (30_000, 1_000))


@pytest.mark.few(2)
@pytest.mark.parametrize("consumer", [False, True])
@pytest.mark.parametrize(("instance_id", "silence_ms"), [("i", 20_000), (None, 31_000)])
def test_a_member_that_left_while_there_was_nothing_to_consume_is_not_called_dead(consumer, instance_id, silence_ms):
    """It was closed, after a time in which nobody committed, or only the others did."""
    ends = []
    for is_lull in (False, True):
        world = _world(consumer)
        last = world.client(world, "last", instance_id, ["orders"])
        world.clients = [world.client(world, "keeper", None, ["orders"]), last]
        for client in world.clients:
            client.start()
            world.run(10_000)
        world.run(30_000)
        if is_lull:
            world.traffic = False
        else:
            last.commit = lambda: None
        world.run(silence_ms)
        last.close(leaves=True)
        world.run(10_000)
        tables = derive(world.log.raw(), session_of_group=GivenSessions(default_ms=world.session)).tables
        (end,) = [row for row in tables["silver_seat"].to_pylist() if row["end_cause"] not in (None, "replaced")]
        said = [line for row in tables["gold_rebalance"].to_pylist() for line in row["evidence"] if " is gone;" in line]
        assert ("nobody in the group committed in that time" in said[-1]) == is_lull
        ends.append((end["end_cause"], end["end_confidence"]))
    cause = "admin-removal" if instance_id else "session-expiry"
    assert ends == [(cause, "likely"), (cause, "possible")]


def test_a_session_that_may_have_been_another_was_no_shorter_than_brokers_allow():
    """A member that was heard from 20 s before its records were deleted has left, if no session is shorter than 45 s."""
    now = SessionTimeout.exactly(60_000, SessionSource.BROKER, allowed_ms=45_000)
    for allowed_ms, sure in ((45_000, Confidence.LIKELY), (6_000, Confidence.POSSIBLE)):
        session = at_departure(replace(now, allowed_ms=allowed_ms), None)
        found = consumer_departure(
            gone(20_000), AT, ConsumerAbsence(away=None, heard=AT - 60_000, unrevoked=None), session
        )
        assert verdict(found) == (Cause.LEAVE, sure), found
