"""Playing a story on a server: connections, parked requests, time."""

import asyncio
import base64
import contextlib
import hashlib
import itertools
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from kgm.model.errors import ErrorCode
from kgm.protocol.apis import ApiKey, response_class
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kgm.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kgm.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kgm.protocol.messages.list_groups_request import ListGroupsRequest
from kgm.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kgm.protocol.struct import Message, Struct
from kgm.protocol.wire import decode_response, encode_request, framed
from tests.server.wire import replies
from tests.server.wire.requests import UNKNOWN_TOPIC_ID, VERBS, millis
from tests.server.wire.story import Step, Story

PATIENCE_S = 60
#: How many runs play at the same time: busy ones, and ones that mostly wait.
AT_ONCE, WAITING_AT_ONCE = 48, 160
PATIENT_THEMES = ("time", "slow", "deviations", "consumer_time")
NOTHING = "(nothing)"
HUNG_UP = "(hangs up)"
MEMBER_ID_REQUIRED = 79
TOPICS = {"orders": 3, "payments": 2}
_POLL_S = 0.02
_LISTENS_S = 2.0
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY = 4, 20
_HEADER_SIZE, _RQUEUE_AT = 16, 16 + 4 + 48 + 4
_ANY = 2**32 - 1


#: (version of the request that was answered, answer lines) for each step.
Answers = list[tuple[int | None, list[str]]]


class StoryError(Exception):
    """A story that cannot be played: its text is wrong, not the server."""


class Connection:
    """One connection; at most one request is unanswered."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._correlation_ids = itertools.count(1)

    @classmethod
    async def open(cls, address: tuple[str, int]) -> "Connection":
        return cls(*await asyncio.open_connection(*address))

    def send(
        self, message: Message, version: int, client_id: str | None, trailing: bytes = b""
    ) -> "asyncio.Task[Message | None]":
        """Send; the task gives the reply, or None when the server closes the connection."""
        correlation_id = next(self._correlation_ids)
        frame = encode_request(message, version=version, correlation_id=correlation_id, client_id=client_id)
        return self.send_frame(frame + trailing, response_class(message.API_KEY), version)

    def send_frame(self, frame: bytes, cls: type[Message], version: int) -> "asyncio.Task[Message | None]":
        self._writer.write(framed(frame))
        return asyncio.create_task(self._receive(cls, version, int.from_bytes(frame[4:8], "big")))

    async def _receive(self, cls: type[Message], version: int, correlation_id: int) -> Message | None:
        try:
            (length,) = struct.unpack(">i", await self._reader.readexactly(4))
            frame = await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionResetError):
            return None
        found, message = decode_response(cls, frame, version=version)
        assert found == correlation_id
        return message

    async def taken(self) -> None:
        """Wait until the server has read what was sent, so that it comes before what others send from now on.

        Kafka reads a socket in the order in which it finds bytes, and says nothing about a request that it parks;
        the kernel's table of sockets shows that the bytes are no longer in the server's buffer."""
        here, there = self._writer.get_extra_info("sockname")[1], self._writer.get_extra_info("peername")[1]
        try:
            await self._writer.drain()
            while _unread(there, here):  # noqa: ASYNC110  (there is no event to wait for)
                await asyncio.sleep(0.001)
        except OSError:
            if not await self._is_hung_up():
                raise

    async def _is_hung_up(self) -> bool:
        """Whether the server has closed the connection, and so no longer reads from it."""
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()
            await asyncio.sleep(0.01)  # lets the event loop see what the kernel has seen
            return self._reader.at_eof()
        return True

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


def _unread(server: int, client: int) -> int:
    """How many bytes wait in the receive buffer of the server's end of a loopback connection (sock_diag(7))."""
    loopback = socket.inet_aton("127.0.0.1") + bytes(12)
    socket_id = struct.pack(">HH", server, client) + loopback + loopback + struct.pack("=III", 0, _ANY, _ANY)
    question = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, _ANY) + socket_id
    header = struct.pack("=IHHII", _HEADER_SIZE + len(question), _SOCK_DIAG_BY_FAMILY, 1, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as netlink:
        netlink.send(header + question)
        answer = netlink.recv(4096)
    if int.from_bytes(answer[4:6], sys.byteorder) != _SOCK_DIAG_BY_FAMILY:
        raise OSError("the kernel does not know the connection")
    found: int = struct.unpack_from("=I", answer, _RQUEUE_AT)[0]
    return found


def errors_in(value: Any) -> set[str]:
    """The names of all errors in a reply."""
    if isinstance(value, list):
        return set().union(*map(errors_in, value))
    if not isinstance(value, Struct):
        return set()
    found = {ErrorCode(value.error_code).name} if hasattr(value, "error_code") else set()
    return found.union(*(errors_in(getattr(value, row[0])) for row in value.FIELDS))


def shows(step: Step, reply: Any) -> bool:
    """Whether a reply about settings has the one that the step waits for, as in `shows=consumer.session.timeout.ms:9000`:
    a broker learns of a change some time after the controller that has answered."""
    wanted = step.options.get("shows")
    return wanted is None or any(
        f"{each.name}:{each.value}" == wanted for result in reply.results for each in result.configs
    )


class Actor:
    """An actor of a story: a connection and, once it has joined, ids."""

    def __init__(self, name: str, connection: Connection) -> None:
        self.name = name
        self.connection = connection
        self.instance: str | None = None
        self.protocol_type: str | None = "consumer"
        self.protocol_name: str | None = "range"
        self.member_id = ""
        self.old_id = ""
        self.generation = -1
        self.producer_id = self.producer_epoch = -1
        self.pending: asyncio.Task[Message | None] | None = None
        self.pending_version: int | None = None

    def learn(self, message: Message | None) -> None:
        """Remember the ids in the response to a JoinGroup, ConsumerGroupHeartbeat or InitProducerId."""
        told: Any = message
        if message is not None and message.API_KEY == ApiKey.CONSUMER_GROUP_HEARTBEAT and told.error_code == 0:
            self.member_id, self.generation = told.member_id or self.member_id, told.member_epoch
        if getattr(told, "producer_id", -1) >= 0:
            self.producer_id, self.producer_epoch = told.producer_id, told.producer_epoch
        if message is None or message.API_KEY != ApiKey.JOIN_GROUP:
            return
        if told.member_id and told.member_id != self.member_id:
            self.old_id, self.member_id = self.member_id, told.member_id
        if not told.error_code:
            self.generation = told.generation_id
            self.protocol_type = told.protocol_type or self.protocol_type
            self.protocol_name = told.protocol_name


async def _warm_up_transactions(connection: Connection) -> None:
    """Wait until there is a coordinator for every transactional id."""
    for number in range(16):  # enough ids for each of the few partitions of its log
        reply: Any = None
        while reply is None or reply.error_code:
            await connection.send(FindCoordinatorRequest(key=f"warm-{number}", key_type=1), 2, "wire")
            request = InitProducerIdRequest(transactional_id=f"warm-{number}", transaction_timeout_ms=60_000)
            reply = await connection.send(request, 0, "wire")
            await asyncio.sleep(_POLL_S)


class Server:
    """What is the same for all stories on one server."""

    def __init__(
        self,
        addresses: tuple[tuple[str, int], ...],
        topic_ids: dict[str, bytes],
        cluster_id: str,
        coordinator_id: int,
    ) -> None:
        self.address, self.elsewhere = addresses[0], addresses[-1]
        self.topic_ids = topic_ids
        self.cluster_id = cluster_id
        self.coordinator_id = coordinator_id
        self.numbers = itertools.count(1)

    @classmethod
    async def meet(cls, bootstrap: str) -> "Server":
        host, _, port = bootstrap.rpartition(":")
        connection = await Connection.open((host, int(port)))
        # A cluster that has just been made needs a moment to become coordinator, and to have producer ids.
        groups: Any = None
        while groups is None or groups.error_code:
            groups = await connection.send(ListGroupsRequest(), 0, "wire")
            await asyncio.sleep(_POLL_S)
        producer: Any = None
        while producer is None or producer.error_code:
            producer = await connection.send(InitProducerIdRequest(transactional_id=None), 0, "wire")
            await asyncio.sleep(_POLL_S)
        topics = [MetadataRequestTopic(name=name) for name in TOPICS]
        found: Any = await connection.send(MetadataRequest(topics=topics), 12, "wire")
        if found is None:  # a broker that has no topic ids, or does not report them
            await connection.close()
            connection = await Connection.open((host, int(port)))
            found = await connection.send(MetadataRequest(topics=topics), 9, "wire")
        place: Any = await connection.send(FindCoordinatorRequest(key="x"), 2, "wire")
        if len(found.brokers) == 1:
            await _warm_up_transactions(connection)
        await connection.close()
        ids = {topic.name: topic.topic_id for topic in found.topics}
        nodes = sorted(found.brokers, key=lambda node: node.node_id != place.node_id)
        return cls(tuple((node.host, node.port) for node in nodes), ids, found.cluster_id, place.node_id)


class Run:
    """One story in one set of versions on one server."""

    topics = TOPICS

    def __init__(self, story: Story, versions: dict[str, int], server: Server) -> None:
        self._story = story
        self._versions = versions
        self._server = server
        self._prefix = f"wire-{next(server.numbers)}-"
        self._actors: dict[str, Actor] = {}
        self._labels: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._own_topics: dict[str, bytes] = {}
        self.coordinator_id = server.coordinator_id

    # -- names

    def group(self, name: str) -> str:
        return self._prefix + name if name else ""

    def is_own(self, group_id: str) -> bool:
        return group_id.startswith(self._prefix)

    def member(self, text: str) -> str:
        if not text.startswith("@"):
            return text
        name, _, old = text[1:].partition(".")
        if name not in self._actors:
            raise StoryError(f"nobody is called {name}")
        actor = self._actors[name]
        return actor.old_id if old else actor.member_id

    def topic_id(self, name: str) -> bytes:
        return {**self._server.topic_ids, **self._own_topics}.get(name, UNKNOWN_TOPIC_ID)

    def topic(self, name: str) -> str:
        """The name of a topic of this run only, or of one that always exists."""
        return name if name in TOPICS else self._prefix + name

    def new_id(self, actor: "Actor") -> str:
        """A member id made by a client: the same each time that the story is played, so that hashes are equal."""
        count = self._counts[actor.name] = self._counts.get(actor.name, 0) + 1
        made = hashlib.sha256(f"{self._story.name}/{actor.name}/{count}".encode()).digest()
        found = base64.urlsafe_b64encode(bytes([made[0] & 0x7F]) + made[1:16]).decode().rstrip("=")
        self._labels[found] = f"@{actor.name}" + (str(count) if count > 1 else "")
        return found

    def topic_of(self, topic_id: bytes) -> str:
        names = {found: name for name, found in {**self._server.topic_ids, **self._own_topics}.items()}
        return f"<id of {names.get(topic_id, 'no topic')}>"

    def anonymous(self, text: str) -> str:
        """The text without what differs between two servers."""
        for found in (*replies.new_ids(text), *self._labels):
            text = text.replace(found, self._labels.get(found, "@?"))
        host, port = self._server.address
        text = text.replace(f"host={host} port={port}", "host=<host> port=<port>")
        return text.replace(self._prefix, "").replace(self._server.cluster_id, "<cluster>")

    def _name(self, actor: Actor, message: Message | None) -> None:
        found = replies.id_in(getattr(message, "member_id", None) or "")
        if found is not None and found not in self._labels:
            count = self._counts[actor.name] = self._counts.get(actor.name, 0) + 1
            self._labels[found] = f"@{actor.name}" + (str(count) if count > 1 else "")

    async def _meet_topics(self, step: Step, actor: "Actor") -> None:
        """Wait until the broker knows the topics of a step in their expected form, and learn their ids."""
        wanted = {self.topic(name): int(value) for name, value in step.options.items()}
        while True:
            topics = [MetadataRequestTopic(name=name) for name in wanted]
            request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
            found: Any = await actor.connection.send(request, 12, "wire")
            sizes = {row.name: len(row.partitions) for row in found.topics}
            if all(sizes.get(name, 0) == count for name, count in wanted.items()):
                break
            await asyncio.sleep(_POLL_S)
        for row in found.topics:
            if row.topic_id != bytes(16):
                self._own_topics[row.name.removeprefix(self._prefix)] = row.topic_id
        while await self._probe(actor, [*wanted]) != sum(wanted.values()):  # noqa: ASYNC110  (there is no event to wait for)
            await asyncio.sleep(_POLL_S)

    async def _probe(self, actor: "Actor", names: list[str]) -> int:
        """How many partitions of these topics the coordinator knows; it learns of them later than the broker."""
        beat = ConsumerGroupHeartbeatRequest(
            group_id=f"{self._prefix}probe-{next(self._server.numbers)}",
            member_id="probe",
            rebalance_timeout_ms=30_000,
            subscribed_topic_names=names,
            topic_partitions=[],
        )
        told: Any = await actor.connection.send(beat, 1, "wire")
        beat.member_epoch = -1
        await actor.connection.send(beat, 1, "wire")
        return sum(len(row.partitions) for row in told.assignment.topic_partitions)

    # -- playing

    async def play(self) -> Answers:
        """(version of the request that was answered, answer lines) for each step."""
        found: list[tuple[int | None, list[Message | str]]] = []
        try:
            for step in self._story.steps:
                try:
                    found.append(await asyncio.wait_for(self._step(step), PATIENCE_S))
                except (StoryError, TimeoutError, AssertionError) as error:
                    done = zip(self._story.steps, self._texts(found), strict=False)
                    before = "\n".join(f"  {step.line} -> {lines}" for step, (_, lines) in done)
                    raise StoryError(
                        f"{self._story.name}, {self._versions}: {step.line}: {error!r}\n{before}"
                    ) from error
        finally:
            for actor in self._actors.values():
                await self._hang_up(actor)
        return self._texts(found)

    def _texts(self, found: list[tuple[int | None, list[Message | str]]]) -> Answers:
        """The replies as text, now that all ids have names."""
        return [
            (version, [line if isinstance(line, str) else replies.text_of(line, self) for line in lines])
            for version, lines in found
        ]

    async def _step(self, step: Step) -> tuple[int | None, list[Message | str]]:
        if step.verb == "form":
            self._nobody_was_answered()
            return None, [await self._form(step)]
        if step.verb == "sleep":
            self._nobody_was_answered()
            await asyncio.sleep(millis(step.words[0]) / 1000)
            return None, []
        actor = await self._actor(step.actor, step.options.get("at"))
        if step.verb == "hears":
            return await self._hears(actor)
        if step.verb == "listens":
            # kgm may answer what Kafka never answers.
            assert actor.pending is not None
            await asyncio.wait([actor.pending], timeout=_LISTENS_S)
            return await self._hears(actor) if actor.pending.done() else (actor.pending_version, ["(silence)"])
        if step.verb == "waits":
            assert actor.pending is not None
            assert not actor.pending.done(), f"{actor.name} does not wait any more: {actor.pending.result()}"
            return None, []
        self._nobody_was_answered()
        if step.verb in ("restarts", "disconnects"):
            await self._restart(actor, forgets=step.verb == "restarts")
            return None, []
        if step.verb == "frame":
            return await self._frame(step, actor)
        return await self._request(step, actor)

    async def _frame(self, step: Step, actor: Actor) -> tuple[int | None, list[Message | str]]:
        """Any bytes, and a reply read in version `as`, by default the one sent."""
        key, version = int(step.options["api"]), int(step.options["v"])
        body = bytes.fromhex(step.options.get("body", ""))
        frame = struct.pack(">hhih", key, version, 1, -1) + body
        read_as = int(step.options.get("as", version))
        found = await actor.connection.send_frame(frame, response_class(int(step.options.get("like", key))), read_as)
        if found is None:
            await actor.connection.close()
            actor.connection = await Connection.open(self._server.address)
        return version, [self._heard(actor, found)]

    def _nobody_was_answered(self) -> None:
        """Check that no reply is left: the step right after the one that caused a reply must hear it."""
        for actor in self._actors.values():
            if actor.pending is not None and actor.pending.done():
                raise StoryError(f"{actor.name} has been answered already: {actor.pending.result()}")

    async def _actor(self, name: str, at: str | None = None) -> Actor:
        if name not in self._actors:
            address = self._server.elsewhere if at == "other" else self._server.address
            self._actors[name] = Actor(name, await Connection.open(address))
        return self._actors[name]

    async def _restart(self, actor: Actor, *, forgets: bool) -> None:
        await self._hang_up(actor)
        actor.connection = await Connection.open(self._server.address)
        if forgets:
            actor.old_id, actor.member_id, actor.generation = actor.member_id, "", -1

    async def _hang_up(self, actor: Actor) -> None:
        if actor.pending is not None:
            actor.pending.cancel()
            await asyncio.wait([actor.pending])
            actor.pending = None
        await actor.connection.close()

    async def _hears(self, actor: Actor) -> tuple[int | None, list[Message | str]]:
        if actor.pending is None:
            raise StoryError(f"{actor.name} waits for nothing")
        message = await actor.pending
        actor.pending = None
        return actor.pending_version, [self._heard(actor, message)]

    def _heard(self, actor: Actor, message: Message | None) -> Message | str:
        if message is None:
            return HUNG_UP
        self._name(actor, message)
        actor.learn(message)
        return message

    async def _request(self, step: Step, actor: Actor) -> tuple[int | None, list[Message | str]]:
        verb = VERBS[step.verb]
        version = step.pinned
        if version is None:
            version = self._versions[verb.api]
        if "instance" in step.options and verb.key in (ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT):
            actor.instance = None if step.options["instance"] == "-" else step.options["instance"]
        client_id = step.options.get("client", "c")
        if actor.pending is not None:
            raise StoryError(f"{actor.name} still waits")
        if verb.key == ApiKey.CONSUMER_GROUP_HEARTBEAT and not actor.member_id and "member" not in step.options:
            actor.member_id = self.new_id(actor)
        build = lambda: verb.build(step, actor, version, self)  # noqa: E731
        sent_as = None if client_id == "null" else client_id
        trailing = bytes.fromhex(step.options.get("trailing", ""))
        if step.verb in ("until", "until-consumer"):
            return version, [await self._until(step, actor, build, version)]
        lines: list[Message | str] = []
        if step.verb == "enter" and version >= 4 and actor.instance is None:
            lines.append(self._heard(actor, await actor.connection.send(build(), version, sent_as, trailing)))
        task = actor.connection.send(build(), version, sent_as, trailing)
        if step.waits:
            actor.pending, actor.pending_version = task, version
            await actor.connection.taken()
            return version, lines
        reply = await task
        while set(step.options.get("retry", "-").split(",")) & errors_in(reply) or not shows(step, reply):
            await asyncio.sleep(_POLL_S)
            reply = await actor.connection.send(build(), version, sent_as, trailing)
        lines.append(self._heard(actor, reply))
        if verb.changes_topics and "validate" not in step.words and not errors_in(reply) - {"NONE"}:
            await self._meet_topics(step, actor)
        return version, lines

    async def _until(self, step: Step, actor: Actor, build: Any, version: int) -> Message:
        """Describe repeatedly until the group is in the state `words[0]` and, if given, has members=N or epoch=N."""
        wanted = int(step.options["members"]) if "members" in step.options else None
        epoch = int(step.options["epoch"]) if "epoch" in step.options else None
        while True:
            found: Any = await actor.connection.send(build(), version, "c")
            group = found.groups[0]
            reached = wanted in (None, len(group.members)) and (epoch is None or epoch == group.group_epoch)
            if group.group_state == step.words[0] and reached:
                return found
            await asyncio.sleep(_POLL_S)

    async def _form(self, step: Step) -> str:
        """Bring actors (`a`, `b:instance`) into a Stable group, each with its own name in capitals for an assignment;
        with readable=yes, with a partition of orders each."""
        names = [word.partition(":")[0] for word in step.words]
        for word in step.words:
            name, colon, instance = word.partition(":")
            (await self._actor(name)).instance = instance if colon else None
        join = lambda name: Step(line=step.line, actor=name, verb="enter", options=step.options, waits=True)  # noqa: E731
        for count, name in enumerate(names):
            await self._request(join(name), self._actors[name])
            if self._story.broker == "quick":
                for other in names[:count]:
                    rejoin = Step(line=step.line, actor=other, verb="join", options=step.options, waits=True)
                    await self._request(rejoin, self._actors[other])
                for other in names[: count + 1]:
                    await self._must_succeed(self._actors[other])
        if self._story.broker != "quick":
            for name in names:
                await self._must_succeed(self._actors[name])
        readable = "readable" in step.options
        shares = [f"!orders-{index}" if readable else name.upper() for index, name in enumerate(names)]
        assign = ",".join(f"{name}:{share}" for name, share in zip(names, shares, strict=True))
        for name in names:
            options = {"assign": assign} if name == names[0] else {}
            sync = Step(line=step.line, actor=name, verb="sync", options=options, waits=True)
            await self._request(sync, self._actors[name])
            await self._must_succeed(self._actors[name])
        return f"Stable generation_id={self._actors[names[0]].generation}"

    async def _must_succeed(self, actor: Actor) -> None:
        _, (reply,) = await self._hears(actor)
        if getattr(reply, "error_code", -1):
            raise StoryError(f"{actor.name}: {reply}")


async def play_all(
    stories: Sequence[Story],
    server: Server,
    took: dict[str, float] | None = None,
    *,
    is_played: Callable[[Story, int], bool] = lambda _story, _run: True,
) -> dict[str, list[Answers | BaseException | None]]:
    """Every story in all its versions: answers by story, run and step. took: gets the seconds of each story's
    longest run. is_played: whether a run, by its number, is; the answers of one that is not are None."""
    busy, patient = asyncio.Semaphore(AT_ONCE), asyncio.Semaphore(WAITING_AT_ONCE)
    took = {} if took is None else took

    async def one(story: Story, number: int, versions: dict[str, int]) -> Answers | None:
        if not is_played(story, number):
            return None
        async with patient if story.theme in PATIENT_THEMES else busy:
            begun = time.monotonic()
            try:
                return await Run(story, versions, server).play()
            finally:
                took[story.name] = max(took.get(story.name, 0), time.monotonic() - begun)

    async def all_of(story: Story) -> list[Any]:
        runs = (one(story, number, versions) for number, versions in enumerate(story.runs()))
        return await asyncio.gather(*runs, return_exceptions=True)

    found = await asyncio.gather(*(all_of(story) for story in stories))
    return {story.name: runs for story, runs in zip(stories, found, strict=True)}
