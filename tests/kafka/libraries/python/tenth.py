"""A consumer of a library that kgm has never seen: legal, and unlike the others. Its only argument is a JSON object, see
libraries/__init__.py.

Its subscriptions have version 2, user data of its own and the topics in reverse order, and it names a second assignor;
it waits before it rejoins; static members leave when they are closed; and its assignors, whatever they are called, deal
out partitions in turn, starting with the last member."""

from __future__ import annotations

import json
import os
import select
import sys
import time

from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kgm.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kgm.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kgm.protocol.subscription import (
    MemberAssignment,
    Subscription,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from tests.server.wire_client import WireClient

#: Errors after which it asks again: a coordinator that is not ready, a member id that it must use, a rebalance.
NOT_READY, WITH_ID, REBALANCE, UNKNOWN = (14, 15, 16), 79, 27, 25
REACT_S = 0.4


class Member:
    def __init__(self, options: dict) -> None:
        self.options = options
        self.wire = WireClient(int(options["bootstrap"].rpartition(":")[2]), client_id=options["client_id"])
        self.wire.socket.settimeout(3 * options["rebalance_ms"] / 1_000)
        self.member_id, self.generation = "", -1

    def join(self) -> None:
        """Join and sync; repeat until both succeed."""
        while True:
            joined = self.wire.ask(self.join_request(), version=7)
            if joined.error_code == WITH_ID:
                self.member_id = joined.member_id
            elif joined.error_code == UNKNOWN:
                self.member_id = ""
            elif joined.error_code in NOT_READY:
                time.sleep(0.1)
            elif joined.error_code:
                raise SystemExit(f"JoinGroup answered {joined.error_code}")
            else:
                self.member_id, self.generation = joined.member_id, joined.generation_id
                synced = self.wire.ask(self.sync_request(joined), version=4)
                if not synced.error_code:
                    return

    def join_request(self) -> JoinGroupRequest:
        options = self.options
        metadata = encode_subscription(
            Subscription(topics=tuple(sorted(options["topics"], reverse=True)), version=2, user_data=b"tenth")
        )
        return JoinGroupRequest(
            group_id=options["group"], session_timeout_ms=options["session_ms"], member_id=self.member_id,
            rebalance_timeout_ms=options["rebalance_ms"], group_instance_id=options["instance_id"],
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in (options["assignor"], "spare")],
        )  # fmt: skip

    def sync_request(self, joined) -> SyncGroupRequest:
        rows = []
        if joined.leader == self.member_id and joined.members:
            rows = [
                SyncGroupRequestAssignment(member_id=one, assignment=encode_assignment(MemberAssignment(partitions=owned, version=2)))
                for one, owned in self.assigned(joined.members).items()
            ]  # fmt: skip
        return SyncGroupRequest(
            group_id=self.options["group"], generation_id=self.generation, member_id=self.member_id,
            group_instance_id=self.options["instance_id"], assignments=rows,
        )  # fmt: skip

    def assigned(self, members) -> dict[str, dict[str, list[int]]]:
        """Deals partitions out in turn, starting with the last member."""
        ids = sorted((one.member_id for one in members), reverse=True)
        topics = sorted({topic for one in members for topic in decode_subscription(one.metadata).topics})
        rows = [MetadataRequestTopic(name=topic) for topic in topics]
        answer = self.wire.ask(MetadataRequest(topics=rows, allow_auto_topic_creation=False), version=9)
        owned: dict[str, dict[str, list[int]]] = {one: {} for one in ids}
        places = [(topic.name, number) for topic in answer.topics for number in range(len(topic.partitions))]
        for at, (topic, number) in enumerate(sorted(places)):
            owned[ids[at % len(ids)]].setdefault(topic, []).append(number)
        return owned

    def run(self) -> None:
        self.join()
        while True:
            if select.select([sys.stdin], [], [], self.options["heartbeat_ms"] / 1_000)[0]:
                if not sys.stdin.readline():
                    os._exit(143)
                self.leave()
                return
            beat = self.wire.ask(
                HeartbeatRequest(
                    group_id=self.options["group"], generation_id=self.generation, member_id=self.member_id,
                    group_instance_id=self.options["instance_id"],
                ),
                version=4,
            )  # fmt: skip
            if beat.error_code:
                time.sleep(REACT_S)
                self.join()

    def leave(self) -> None:
        me = MemberIdentity(member_id=self.member_id, group_instance_id=self.options["instance_id"])
        self.wire.ask(LeaveGroupRequest(group_id=self.options["group"], members=[me]), version=4)


print("started", flush=True)
Member(json.loads(sys.argv[1])).run()
print("closed", flush=True)
