"""Sessions start again when another coordinator takes over, so a member that is gone less than a session timeout later did
not expire. On an embedded cluster and a clock set by hand.

Kafka: GroupMetadataManager.onLoaded schedules a heartbeat timer for each member of each stable classic group."""

from __future__ import annotations

import pytest

from kgm.model.errors import ErrorCode
from kgm.operations.doctor.diagnosis import diagnose
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from tests.operations.removal.in_process import SESSION_MS, World, form_classic

GROUP = "g"


class Scene:
    """Members a and b, which send heartbeats; b commits. Times in seconds."""

    def __init__(self):
        self.world = World()
        self.a, self.b = form_classic(self.world.cluster, GROUP, ["a", "b"])
        self.is_running, self.at, self.next_s = True, 0, 0.0
        self.world.actors.append(self.act)
        self.world.pass_by(2 * SESSION_MS / 1000)

    def act(self):
        if self.world.now_s < self.next_s:
            return
        self.next_s, self.at = self.world.now_s + 1, self.at + 1
        if self.is_running:
            assert self.a.heartbeat() == 0
        self.b.heartbeat()
        self.b.commit(1, self.at)

    def remove(self):
        """An admin removes a from another machine."""
        row = MemberIdentity(member_id="", group_instance_id="a")
        answer = self.world.cluster.request(LeaveGroupRequest(group_id=GROUP, members=[row]))
        assert answer.members[0].error_code == 0

    def rebalance(self, *members):
        """These join, as the whole group."""
        for one in members:
            one.send_join()
        self.world.cluster.advance(0)
        leader, *_ = [one.receive_join() for one in members]
        owned = {one.member_id: [number] for number, one in enumerate(members)}
        for one in sorted(members, key=lambda one: one.member_id != leader):
            one.sync(owned if one.member_id == leader else None)

    def findings(self):
        with self.world.client() as client:
            found = diagnose(client, [GROUP], window_ms=0, checks=["session-too-short"])
        assert found.errors == ()
        return [one.evidence for one in found.findings]


@pytest.mark.parametrize(("takes_over", "expected"), [(True, 0), (False, 1)])
def test_a_member_that_is_removed_soon_after_a_takeover_did_not_expire(takes_over, expected):
    """Without the takeover it is not known whether it had sent heartbeats up to then: it never commits."""
    scene = Scene()
    if takes_over:
        scene.world.cluster.fail_over()
    scene.world.pass_by(20)
    scene.is_running = False
    scene.remove()
    scene.rebalance(scene.b)
    scene.world.pass_by(10)
    scene.a.member_id = ""
    scene.rebalance(scene.a, scene.b)
    assert len(scene.findings()) == expected


def test_a_session_that_ends_after_a_takeover_is_too_short():
    """It ends a session timeout later, and the record is written when the others have joined, 3 s after that."""
    scene = Scene()
    scene.is_running = False
    scene.world.pass_by(20)
    scene.world.cluster.fail_over()
    taken_s = scene.world.now_s
    until_s = taken_s + SESSION_MS / 1000
    scene.world.pass_by(until_s - 1 - scene.world.now_s)
    assert scene.b.heartbeat() == 0
    scene.world.pass_by(until_s + 3 - scene.world.now_s)
    assert scene.b.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    scene.rebalance(scene.b)
    scene.world.pass_by(10)
    scene.a.member_id = ""
    scene.rebalance(scene.a, scene.b)
    ((evidence,),) = scene.findings()
    assert "its session timeout is 45s" in evidence
