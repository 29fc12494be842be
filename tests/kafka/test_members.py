"""Real members join, stop, crash and are fenced the way their protocol says."""

import itertools

import pytest

from tests.kafka.java_tools import consumer_group_command
from tests.kafka.members import JavaMembers, RdMembers, wait_settled
from tests.kafka.versions import LONG_CONSUMER_SESSION
from tests.selection import sized
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

_ALL_KINDS, _ALL_PROTOCOLS = (RdMembers, JavaMembers), ("classic", "consumer")
#: Library, protocol and whether it is static: without `--long` each value of one once.
WAYS = pytest.mark.parametrize(
    ("kind", "protocol", "static"),
    sized(
        [(RdMembers, "classic", True), (JavaMembers, "consumer", False)],
        [*itertools.product(_ALL_KINDS, _ALL_PROTOCOLS, [True, False])],
    ),
)
KINDS = pytest.mark.parametrize("kind", _ALL_KINDS)
KINDS_AND_PROTOCOLS = pytest.mark.parametrize(
    ("kind", "protocol"),
    sized(
        [(RdMembers, "consumer"), (JavaMembers, "classic")],
        [*itertools.product(_ALL_KINDS, _ALL_PROTOCOLS)],
    ),
)


@pytest.fixture(scope="module")
def topic(kafka):
    kafka.create_topics({"members": 6})
    kafka.produce("members", [b"x"] * 60)
    return "members"


@pytest.fixture(scope="module")
def java(kafka):
    """One JVM for the members of many tests."""
    with JavaMembers(kafka.bootstrap) as started:
        yield started


@pytest.fixture
def members(request, kafka, kind):
    """Members of a library. None of them lives longer than the test."""
    if kind is RdMembers:
        with kind(kafka.bootstrap) as started:
            yield started
        return
    started = request.getfixturevalue("java")
    before = len(started.members)
    yield started
    for member in started.members[before:]:
        if member.alive:
            member.close()


def describe(kafka, group):
    admin = kafka.admin()  # the future stays unanswered if the client is dropped
    return admin.describe_consumer_groups([group])[group].result(20)


def join(members, topic, group, protocol, static, index, **options):
    return members.start(
        group=group, topics=[topic], protocol=protocol, instance_id=f"i{index}" if static else None,
        client_id=f"c{index}", **options,
    )  # fmt: skip


def commit_something(member):
    """Commit once there is something to commit: librdkafka has nothing before it reads from its newest assignment."""

    def is_committed():
        event = member.commit()
        assert event.kind == "committed" or event.data["error"] == "_NO_OFFSET", event
        return event.kind == "committed"

    until(is_committed, "there is nothing to commit", 10, every_s=0.05)


@WAYS
def test_members_join_commit_and_crash(kafka, topic, members, kind, protocol, static):
    group = f"join-{kind.__name__}-{protocol}-{static}"
    # A KIP-848 member of Java can only crash with its JVM, so the one that crashes has its own.
    with kind(kafka.bootstrap) as doomed_members:
        first = join(members, topic, group, protocol, static, 0)
        doomed = join(doomed_members, topic, group, protocol, static, 1)
        wait_settled([first, doomed], 6)
        seen = {member.member_id: member for member in describe(kafka, group).members}
        assert set(seen) == {first.member_id, doomed.member_id}
        assert seen[doomed.member_id].group_instance_id == ("i1" if static else None)
        commit_something(first)

        doomed.crash()
        assert doomed.member_id in {member.member_id for member in describe(kafka, group).members}
        first.wait_assigned(6, timeout_s=30)
        assert {member.member_id for member in describe(kafka, group).members} == {first.member_id}


@KINDS_AND_PROTOCOLS
def test_a_dynamic_member_leaves_at_once(kafka, topic, members, kind, protocol):
    group = f"leave-{kind.__name__}-{protocol}"
    if protocol == "consumer":
        kafka.configure_group(group, LONG_CONSUMER_SESSION)
    both = [join(members, topic, group, protocol, False, index, session_timeout_ms=60_000) for index in range(2)]
    wait_settled(both, 6)
    both[0].close()
    # Long before its session would end.
    until(
        lambda: {member.member_id for member in describe(kafka, group).members},
        "the member does not leave",
        30,
        accept=lambda ids: ids == {both[1].member_id},
    )
    both[1].wait_assigned(6)


@KINDS_AND_PROTOCOLS
def test_a_static_member_comes_back_to_its_partitions(kafka, topic, members, kind, protocol):
    group = f"back-{kind.__name__}-{protocol}"
    both = [join(members, topic, group, protocol, True, index) for index in range(2)]
    wait_settled(both, 6)
    owned, events = both[0].assignment, len(both[1].of_kind("assigned", "revoked"))
    both[0].close()
    again = join(members, topic, group, protocol, True, 0)
    assert again.wait_assigned(3) == owned
    assert len(both[1].of_kind("assigned", "revoked")) == events


@KINDS
def test_a_classic_duplicate_fences_the_first(topic, members, kind):
    group = f"duplicate-{kind.__name__}"
    first = join(members, topic, group, "classic", True, 0)
    first.wait_assigned(6)
    second = join(members, topic, group, "classic", True, 0)
    first.wait_event("fatal")
    assert first.fatal == "FENCED_INSTANCE_ID"
    second.wait_assigned(6)


@KINDS
def test_a_consumer_duplicate_is_refused(topic, members, kind):
    group = f"duplicate-848-{kind.__name__}"
    first = join(members, topic, group, "consumer", True, 0)
    first.wait_assigned(6)
    second = join(members, topic, group, "consumer", True, 0)
    second.wait_event("fatal")
    assert second.fatal == "UNRELEASED_INSTANCE_ID"
    assert first.fatal is None


_ASSIGNORS = ["range", "roundrobin", "cooperative-sticky"]


@pytest.mark.parametrize(
    ("kind", "assignor"),
    sized(
        [*zip(itertools.cycle([RdMembers, JavaMembers]), _ASSIGNORS)],
        list(itertools.product([RdMembers, JavaMembers], _ASSIGNORS)),
    ),
)
def test_client_side_assignors(kafka, topic, members, kind, assignor):
    group = f"{assignor}-{kind.__name__}"
    three = [members.start(group=group, topics=[topic], assignor=assignor) for _ in range(3)]
    wait_settled(three, 6)
    assert describe(kafka, group).partition_assignor == assignor
    assert [len(member.assignment) for member in three] == [2, 2, 2]


def test_the_broker_side_assignor_can_be_chosen(kafka, topic):
    with RdMembers(kafka.bootstrap) as members:
        member = members.start(group="remote", topics=[topic], protocol="consumer", assignor="range")
        member.wait_assigned(6)
        assert describe(kafka, "remote").partition_assignor == "range"


@pytest.mark.long
def test_five_java_members_share_a_jvm_and_one_leaves_for_good(kafka, topic):
    with JavaMembers(kafka.bootstrap) as members:
        five = [join(members, topic, "five", "classic", True, index) for index in range(5)]
        wait_settled(five, 6)
        assert {event.data["generation"] for member in five for event in member.events[-1:]} == {
            five[0].events[-1].data["generation"]
        }
        five[0].close()
        assert len(describe(kafka, "five").members) == 5
        five[1].close_leave()
        assert len(describe(kafka, "five").members) == 4


def test_a_stalled_member_is_removed(kafka, topic):
    with RdMembers(kafka.bootstrap) as members:
        stalled = members.start(group="stalled", topics=[topic], max_poll_interval_ms=2000, session_timeout_ms=1500)
        stalled.wait_assigned(6)
        stalled.stall(3500)
        stalled.wait_event("error", timeout_s=10)
        assert stalled.of_kind("error")[0].data["error"] == "_MAX_POLL_EXCEEDED"


@pytest.mark.long
def test_kafkas_own_command_sees_the_member(kafka, topic):
    with RdMembers(kafka.bootstrap) as members:
        member = join(members, topic, "seen", "classic", True, 7)
        member.wait_assigned(6)
        out = consumer_group_command(kafka.bootstrap, "--describe", "--group", "seen", "--members", "--verbose")
        assert member.member_id in out
        assert "i7" in out
