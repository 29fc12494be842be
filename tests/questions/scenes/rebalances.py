"""Scenes about rebalances: those that do not end, those that recur, and members that are refused."""

from __future__ import annotations

from kgm.client import connect
from kgm.client.offsets_topic.member_activity import CommitRecord, GroupActivity
from kgm.model.errors import ErrorCode
from tests.client.joiners import take_all
from tests.kafka.members import wait_settled
from tests.kafka.secured import GROUP_MAX_SIZE
from tests.questions.stage import Stage
from tests.waiting import until

#: So far above a session timeout of 6 s that no session can expire as late as this.
POLL_MS = 15_000
#: On a busy machine a session may expire first.
_STALLS = 3


def does_not_rejoin(stage: Stage) -> None:
    """A static member's process hangs; another member joins."""
    slow = stage.alone("billing-1")
    assert slow.commit(0, 0) == 0
    newcomer = stage.joiner("billing-2")
    newcomer.send_join()
    until(lambda: stage.state() == "PreparingRebalance", "the newcomer does not join")


def does_not_assign(stage: Stage) -> None:
    """All have joined, and the leader does not send the assignment."""
    leader = stage.joiner("billing-1")
    assert leader.join().error_code == 0
    assert stage.state() == "CompletingRebalance"


def does_not_revoke(stage: Stage) -> None:
    """A member is asked to give up partitions, but keeps working on them."""
    group = stage.heartbeats()
    group.join("billing-a", None)
    group.heartbeat_until_stable()
    group.join("billing-b", None)

    def asked() -> bool:
        group.heartbeat("billing-a")
        return sum(map(len, group.owned["billing-a"].values())) == 1

    until(asked, "nothing is to be given up")


def stops_polling(stage: Stage) -> None:
    """An application stops polling: its library leaves the group, and joins again."""
    stalled = stage.start(stage.java, max_poll_interval_ms=POLL_MS, client_id="stalled")
    other = stage.start(stage.rd, max_poll_interval_ms=POLL_MS, client_id="other", settled=0)
    wait_settled([stalled, other], 2, 60)

    def commits() -> list[int]:
        """How often each partition was committed; librdkafka commits only what it has read."""
        with connect(stage.kafka.bootstrap, timeout_ms=30_000) as cluster:
            read = GroupActivity(cluster, stage.name).read_back(lambda _: False, cluster.deadline)
        return [sum(isinstance(one, CommitRecord) and one.partition == number for one in read) for number in (0, 1)]

    for _ in range(_STALLS):
        before, lost = max(commits()), len(stalled.of_kind("lost", "revoked"))
        until(lambda: max(commits()) >= before + 5, "no regular commits", every_s=0.5)  # noqa: B023
        stalled.stall(POLL_MS + 8_000)
        stalled.wait_for(lambda: len(stalled.of_kind("lost", "revoked")) > lost, "loss of partitions", 90)  # noqa: B023
        wait_settled([stalled, other], 2, 60)
        if stage.has_finding("max-poll-exceeded"):
            return


def mismatches(stage: Stage) -> None:
    """A client has an assignor that the group does not use."""
    stage.start(stage.java, assignor="range")
    refused = stage.start(stage.rd, assignor="cooperative-sticky", settled=0)
    assert refused.wait_event("error", "fatal").data["error"] == "INCONSISTENT_GROUP_PROTOCOL"
    stage.file("new.properties", {"partition.assignment.strategy": "cooperative-sticky"})


def is_full(stage: Stage) -> None:
    """As many members as the broker allows."""
    stage.stable(*(f"billing-{number + 1}" for number in range(GROUP_MAX_SIZE)))
    refused = stage.joiner("billing-10")
    assert refused.join().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def again_and_again(stage: Stage) -> None:
    """The only member joins again and again."""
    member = stage.joiner(None)
    for _ in range(8):
        take_all(member)


def one_is_killed(stage: Stage) -> None:
    """A member without an instance id is killed, and its session ends."""
    first = stage.start(stage.rd, client_id="billing-1")
    second = stage.start(stage.rd, client_id="billing-2", settled=0)
    wait_settled([first, second], 2, 60)
    stage.produce(20, 0, 1)
    stage.until_read(0, 1)
    second.crash()
    wait_settled([first], 2, 60)
