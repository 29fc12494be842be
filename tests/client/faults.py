"""A broker that misbehaves on demand: a proxy in front of a real server that knows where requests begin and end.

`proxy.script(ApiKey.LEAVE_GROUP, ResetAfter())` lets the next LeaveGroup reach the server and loses its answer. Faults
for one API are used up in order, one per request; without a fault, requests and answers pass unchanged, except that the
addresses in Metadata and FindCoordinator name the proxy. All on loopback, in threads that end with the proxy."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from kgm.client.transport.bootstrap import Address
from kgm.model.errors import ErrorCode
from kgm.protocol import wire
from kgm.protocol.apis import ApiKey, response_class
from kgm.protocol.messages.api_versions_response import ApiVersion
from kgm.protocol.struct import Message
from tests.protocol.request_frames import decode_request


@dataclass(frozen=True)
class Pass:
    """No fault for this request."""


@dataclass(frozen=True)
class ResetBefore:
    """The connection ends before the server sees the request. `then` runs in between."""

    then: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class ResetAfter:
    """The server carries out the request, and the answer is lost. `then` runs in between, for what happens
    meanwhile."""

    then: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class BlackHole:
    """No answer, and the connection stays open. forward: the server carries out the request all the same. `then` runs
    when it has."""

    forward: bool = False
    then: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Delay:
    """The answer comes late. `before` runs before the server sees the request."""

    seconds: float
    before: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Truncate:
    """The first bytes of the answer, and the end of the connection."""

    keep_bytes: int


@dataclass(frozen=True)
class Raw:
    """These bytes instead of the answer, including the length. forward: the server carries out the request all the
    same. keep: the connection stays usable afterwards."""

    data: bytes
    forward: bool = True
    keep: bool = False


@dataclass(frozen=True)
class Garbage:
    """A frame with the right length and correlation id whose contents are not the expected message."""

    body: bytes = b"\xff" * 40


@dataclass(frozen=True)
class WrongCorrelation:
    """The answer with the correlation id of another request."""


@dataclass(frozen=True)
class Drip:
    """The answer, one byte at a time."""

    pause_s: float = 0.0


@dataclass(frozen=True)
class Edit:
    """The decoded answer, changed in place or replaced by what `change` returns. forward: the server carries out the
    request first."""

    change: Callable[[Any], Message | None] = field(repr=False)  # otherwise it appears in the ids of tests
    forward: bool = True


Fault = Pass | ResetBefore | ResetAfter | BlackHole | Delay | Truncate | Raw | Garbage | WrongCorrelation | Drip | Edit


def denied(answer: Any) -> None:
    """Edits a Metadata answer: the login has no right to read `__consumer_offsets`."""
    for topic in answer.topics:
        if topic.name == "__consumer_offsets":
            topic.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@dataclass
class Seen:
    """One request that passed through the proxy."""

    api: ApiKey
    version: int
    message: Message


@dataclass
class FaultProxy:
    """Listens on `port` once entered. `ranges` narrows the versions that the server seems to speak. `source` is the address
    from which the server sees its clients connect: any of 127.0.0.0/8."""

    backend: tuple[str, int]
    ranges: dict[ApiKey, tuple[int, int]] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    source: str = "127.0.0.1"

    def __post_init__(self) -> None:
        self._faults: dict[ApiKey, deque[Fault]] = defaultdict(deque)
        self._always: dict[ApiKey, Fault] = {}
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.refuse()
        self.cut()

    def script(self, api: ApiKey, *faults: Fault) -> None:
        """Set the faults of the next requests of this API, in order."""
        self._faults[api].extend(faults)

    def always(self, api: ApiKey, fault: Fault) -> None:
        """Set the fault of every further request of this API."""
        self._always[api] = fault

    def hide_offsets_topic(self) -> None:
        """From now on no login may read `__consumer_offsets`."""
        self.always(ApiKey.METADATA, Edit(denied))

    def refuse(self) -> None:
        """Stop listening: connection refused from now on."""
        with self._lock:
            self._open.append(self._listener)
        self._listener.close()

    def cut(self) -> None:
        """End every open connection."""
        with self._lock:
            doomed, self._open = self._open, []
        for sock in doomed:
            _end(sock)

    def requests(self, api: ApiKey) -> list[Message]:
        return [one.message for one in self.seen if one.api == api]

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._relay, args=(client,), daemon=True).start()

    def _relay(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self.backend, source_address=(self.source, 0))
        except OSError:  # the broker has ended
            _end(client)
            return
        with self._lock:
            self._open += [client, server]
        try:
            while not self._ended.is_set():
                request = _read_frame(client)
                if not self._one(client, server, request):
                    break
        except (OSError, EOFError):
            pass
        finally:
            _end(client)
            _end(server)

    def _fault(self, api: ApiKey) -> Fault:
        with self._lock:
            return self._faults[api].popleft() if self._faults[api] else self._always.get(api, Pass())

    def _one(self, client: socket.socket, server: socket.socket, frame: bytes) -> bool:
        """Handle one request; False ends the connection."""
        header = wire.decode_request_header(frame)
        api = ApiKey(header.api_key)
        self.seen.append(Seen(api, header.version, decode_request(frame).message))
        fault = self._fault(api)

        def forward() -> bytes:
            server.sendall(wire.framed(frame))
            return _read_frame(server)

        def edited(change: Callable[[Any], Message | None], answer: bytes) -> bytes:
            version = header.version
            cls = response_class(api)
            _, message = wire.decode_response(cls, answer, version=version)
            message = change(message) or message
            return wire.encode_response(message, version=version, correlation_id=header.correlation_id)

        match fault:
            case ResetBefore(then):
                then()
                return False
            case ResetAfter(then):
                forward()
                then()
                return False
            case BlackHole(is_forwarded, then):
                if is_forwarded:
                    forward()
                then()
                self._ended.wait()
                return False
            case Truncate(keep):
                client.sendall(
                    wire.framed(self._readdressed(api, header.version, header.correlation_id, forward()))[:keep]
                )
                return False
            case Raw(data, is_forwarded, is_kept):
                if is_forwarded:
                    forward()
                client.sendall(data)
                return is_kept
            case Garbage(body):
                forward()
                client.sendall(wire.framed(struct.pack(">i", header.correlation_id) + body))
                return True
            case WrongCorrelation():
                answer = forward()
                client.sendall(wire.framed(struct.pack(">i", header.correlation_id + 1000) + answer[4:]))
                return True
            case Edit(change, is_forwarded):
                if is_forwarded:
                    answer = edited(change, self._readdressed(api, header.version, header.correlation_id, forward()))
                else:
                    message = change(response_class(api)())
                    assert message is not None
                    answer = wire.encode_response(message, version=header.version, correlation_id=header.correlation_id)
                client.sendall(wire.framed(answer))
                return True
            case Delay(seconds, before):
                before()
                answer = forward()
                self._ended.wait(seconds)
            case _:
                answer = forward()
        answer = self._readdressed(api, header.version, header.correlation_id, answer)
        if isinstance(fault, Drip):
            for byte in wire.framed(answer):
                client.sendall(bytes([byte]))
                self._ended.wait(fault.pause_s)
        else:
            client.sendall(wire.framed(answer))
        return True

    def _readdressed(self, api: ApiKey, version: int, correlation_id: int, answer: bytes) -> bytes:
        """The answer with the proxy's own address in place of the server's, and with the versions that it claims to
        support."""
        if api not in (ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.API_VERSIONS):
            return answer
        if api is ApiKey.API_VERSIONS and answer[4:6] != b"\0\0":
            return answer
        _, message = wire.decode_response(response_class(api), answer, version=version)
        if api is ApiKey.METADATA:
            for broker in message.brokers:
                broker.host, broker.port = "127.0.0.1", self.port
        elif api is ApiKey.FIND_COORDINATOR:
            for row in [message, *message.coordinators]:
                row.host, row.port = ("127.0.0.1", self.port) if row.port > 0 else (row.host, row.port)
            if version >= 4:
                message.host, message.port, message.node_id = "", 0, 0
        else:
            kept = {row.api_key: row for row in message.api_keys}
            for key, (low, high) in self.ranges.items():
                if high < low:
                    kept.pop(key, None)
                else:
                    kept[int(key)] = ApiVersion(api_key=int(key), min_version=low, max_version=high)
            message.api_keys = list(kept.values())
        return wire.encode_response(message, version=version, correlation_id=correlation_id)


class Listener:
    """Accepts connections on loopback, one after another, and calls `talk` for each."""

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listener.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        _end(self._listener)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client:
                self.talk(client)

    def talk(self, client: socket.socket) -> None:
        raise NotImplementedError


class Scripted:
    """A listener that answers every connection with fixed bytes, once it has read something; it knows no protocol."""

    def __init__(self, answer: bytes, *, hold: bool = False) -> None:
        self._answer, self._hold = answer, hold
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        _end(self._listener)

    def _serve(self) -> None:
        while not self._ended.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer_one, args=(client,), daemon=True).start()

    def _answer_one(self, client: socket.socket) -> None:
        with client:
            client.recv(65536)
            client.sendall(self._answer)
            if self._hold:
                self._ended.wait()


def _end(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()


def _read_frame(sock: socket.socket) -> bytes:
    (length,) = struct.unpack(">i", _exactly(sock, 4))
    return _exactly(sock, length)


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data
