"""An embedded cluster on which every name that a client can choose is one of hostile.WIRE."""

from __future__ import annotations

import contextlib
import pathlib
import socket
import struct
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.protocol import wire
from kgm.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kgm.protocol.messages.join_group_response import JoinGroupResponse
from kgm.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kgm.protocol.messages.offset_commit_response import OffsetCommitResponse
from kgm.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kgm.protocol.messages.sync_group_response import SyncGroupResponse
from kgm.protocol.subscription import MemberAssignment, Subscription, encode_assignment, encode_subscription
from kgm.server import EmbeddedServer, serve_in_thread
from tests.text.hostile import WIRE
from tests.waiting import until

#: The group with a member for each name; its own name is hostile too.
CROWD = "=crowd\x1b[2J\x1b[31m\u202e\r\nerror: nothing\u200b"
#: A group whose members were removed, for the audit log.
GONE = "\x9b31m$(gone)\x1b]0;x\x07"
TOPIC = "orders"
PARTITIONS = 70
_SESSION_MS = 1_800_000
_SUBSCRIPTION = encode_subscription(Subscription(topics=(TOPIC, *WIRE)))


@dataclass(frozen=True, slots=True)
class Hostile:
    """The cluster's address, and the folder with its logs."""

    bootstrap: str
    logs: pathlib.Path


@contextlib.contextmanager
def hostile_cluster(folder: pathlib.Path) -> Iterator[Hostile]:
    """Each name of WIRE is a group with one member of that instance id, and CROWD has all of them as members."""
    settings = BrokerSettings.from_overrides({"group.initial.rebalance.delay.ms": "0"})
    with serve_in_thread(topics={TOPIC: PARTITIONS}, settings=settings, data_dir=folder) as server:
        with ThreadPoolExecutor(len(WIRE) + 2) as pool:
            done = [pool.submit(_form, server, group, [group]) for group in WIRE]
            done += [pool.submit(_form, server, CROWD, WIRE, WIRE[:4]), pool.submit(_form, server, GONE, WIRE[:3])]
            for each in done:
                each.result()
        yield Hostile(server.bootstrap, folder)


class _Peer:
    def __init__(self, address: tuple[str, int], name: str, *, is_static: bool) -> None:
        self.name, self.is_static = name, is_static
        self.socket = socket.create_connection(address, timeout=60)
        self.member_id = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, message: object, version: int) -> None:
        # Clients choose the client id too, and a dynamic member's id begins with it.
        body = wire.encode_request(message, version=version, correlation_id=1, client_id=self.name)
        self.socket.sendall(wire.framed(body))

    def join(self, group: str) -> None:
        request = JoinGroupRequest(
            group_id=group, session_timeout_ms=_SESSION_MS, rebalance_timeout_ms=_SESSION_MS, protocol_type="consumer",
            group_instance_id=self.name if self.is_static else None, member_id=self.member_id,
            protocols=[JoinGroupRequestProtocol(name="range", metadata=_SUBSCRIPTION)],
        )  # fmt: skip
        self.send(request, 5 if self.is_static else 3)

    def joined(self) -> JoinGroupResponse:
        answer = self.receive(JoinGroupResponse, 5 if self.is_static else 3)
        assert answer.error_code == 0
        return answer

    def receive(self, cls: type, version: int) -> object:
        length = struct.unpack(">i", self._exactly(4))[0]
        return wire.decode_response(cls, self._exactly(length), version=version)[1]

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            chunk = self.socket.recv(count - len(data))
            assert chunk, "the server hung up"
            data += chunk
        return data


def _form(server: EmbeddedServer, group: str, static: Sequence[str], dynamic: Sequence[str] = ()) -> None:
    """Form a stable group of members that then send nothing; the last member also has topics with hostile names."""
    host, _, port = server.bootstrap.rpartition(":")
    address = (host, int(port))
    with contextlib.ExitStack() as opened:
        peers = [
            *(opened.enter_context(_Peer(address, name, is_static=True)) for name in static),
            *(opened.enter_context(_Peer(address, name, is_static=False)) for name in dynamic),
        ]
        _share(group, peers, _gather(server, group, peers))


def _gather(server: EmbeddedServer, group: str, peers: Sequence[_Peer]) -> list[JoinGroupResponse]:
    """The JoinGroup responses of the generation that has all members, in order."""
    first, *others = peers
    # The rebalance waits for the first member, which joins again once all the others have joined: no delay decides who
    # is in.
    first.join(group)
    first.member_id = first.joined().member_id
    for peer in others:
        peer.join(group)

    def are_in() -> int:
        return server.inspect(lambda view: len(view.group(group).members))

    until(are_in, f"{len(peers)} have not joined", accept=lambda count: count == len(peers))
    first.join(group)
    return [peer.joined() for peer in peers]


def _share(group: str, peers: Sequence[_Peer], answers: Sequence[JoinGroupResponse]) -> None:
    """Send the leader's assignment, and a commit of the first member."""
    generation = {answer.generation_id for answer in answers}.pop()
    shares = [
        MemberAssignment(partitions={TOPIC: [at, at + 35], name: [0, 1]})
        for at, name in enumerate(p.name for p in peers)
    ]
    plan = [
        SyncGroupRequestAssignment(member_id=answer.member_id, assignment=encode_assignment(share))
        for answer, share in zip(answers, shares, strict=True)
    ]
    for peer, answer in zip(peers, answers, strict=True):
        is_leader = answer.leader == answer.member_id
        sync = SyncGroupRequest(
            group_id=group, generation_id=generation, member_id=answer.member_id, assignments=plan if is_leader else [],
            group_instance_id=peer.name if peer.is_static else None,
        )  # fmt: skip
        peer.send(sync, 3)
    assert {peer.receive(SyncGroupResponse, 3).error_code for peer in peers} == {0}
    commit = OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=generation, member_id=answers[0].member_id, group_instance_id=peers[0].name,
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata=group)])],
    )  # fmt: skip
    peers[0].send(commit, 7)
    assert peers[0].receive(OffsetCommitResponse, 7).topics[0].partitions[0].error_code == 0
