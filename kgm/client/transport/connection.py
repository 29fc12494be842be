"""One connection to one broker: bytes out, bytes in, every step under an absolute deadline.

`Security` is where TLS and SASL plug in: it wraps the socket before the first byte and logs in once the versions are
known, and again when the session that the broker granted is nearly over (KIP-368). A `BrokerConnection` is used by one
request at a time (it holds a lock); any failure closes it, because after a lost response the next bytes cannot be
attributed to a request."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Protocol, TypeVar

from kgm.client.failures import BadAnswerError, ConnectError, LostError, WrongProtocolError, from_code
from kgm.client.transport.bootstrap import Address
from kgm.client.transport.deadline import Deadline
from kgm.client.transport.parallel import finish_by
from kgm.model.errors import DecodeError, ErrorCode, KgmError, UnsupportedError
from kgm.protocol import wire
from kgm.protocol.apis import API, ApiKey
from kgm.protocol.messages.api_versions_request import ApiVersionsRequest
from kgm.protocol.messages.api_versions_response import ApiVersionsResponse
from kgm.protocol.struct import Message
from kgm.version import __version__

M = TypeVar("M", bound=Message)

#: Kafka's own limit for a frame (socket.request.max.bytes, and librdkafka's receive.message.max.bytes).
MAX_FRAME_BYTES = 100 * 1024 * 1024
#: A lower limit for rows that are small on the wire and large in memory: about 250,000 groups of one broker.
MAX_ANSWER_BYTES = {int(ApiKey.LIST_GROUPS): 16 * 1024 * 1024}
CLIENT_ID = "kgm"
#: A response up to this size decodes in less than a second, whatever it contains.
_QUICKLY_DECODED_BYTES = 1 << 20
_CHUNK_BYTES = 64 * 1024
_TLS_RECORDS = {0x14, 0x15, 0x16, 0x17}
#: The ApiVersions version that every broker supports, and answers with if it does not support the requested one.
_OLDEST = 0


class Security(Protocol):
    """How a connection is protected. `name` is Kafka's security.protocol."""

    name: str

    def wrap(self, sock: socket.socket, host: str, deadline: Deadline) -> socket.socket:
        """The socket to use: the same one, or a TLS socket after its handshake. Raises AuthenticationError."""

    def authenticate(self, connection: BrokerConnection, deadline: Deadline) -> int:
        """Log in (SASL). Called once the versions are known, and again before the session ends.

        Returns the session's lifetime in ms, 0 if it does not end. Raises AuthenticationError."""

    def explain(self, error: BaseException | None, where: str) -> KgmError | None:
        """A more precise error for a closed connection, or None: TLS 1.3 alerts may arrive after the handshake."""


class ConnectStep(StrEnum):
    """The steps of opening a connection, in order."""

    NAME = "name"
    CONNECT = "connect"
    TLS = "tls"
    VERSIONS = "versions"
    SASL = "sasl"


def _ignore_step(step: ConnectStep) -> None:
    """The default for `on_step`."""


class Plaintext:
    """No TLS, no SASL."""

    name = "PLAINTEXT"

    def wrap(self, sock: socket.socket, host: str, deadline: Deadline) -> socket.socket:  # noqa: ARG002
        return sock

    def authenticate(self, connection: BrokerConnection, deadline: Deadline) -> int:  # noqa: ARG002
        return 0

    def explain(self, error: BaseException | None, where: str) -> KgmError | None:  # noqa: ARG002
        return None


def resolve(address: Address, deadline: Deadline) -> list[tuple[int, tuple[str, int]]]:
    """(family, socket address) of each address of a host, in the system's order. A resolver that hangs is abandoned at
    the deadline.

    Raises ConnectError."""
    targets: list[tuple[int, tuple[str, int]]] = []
    failed: list[OSError] = []

    def look_up() -> None:
        try:
            rows = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:  # UnicodeError: a label that IDNA cannot encode
            failed.append(error if isinstance(error, OSError) else OSError(str(error)))
        else:
            targets.extend((family, where) for family, _, _, _, where in rows)  # type: ignore[misc]  # IP only

    if _is_literal(address.host):
        look_up()  # this sends nothing over the network
    else:
        finish_by(deadline, look_up)  # getaddrinfo has no timeout
    if failed:
        raise ConnectError(f"{address}: the host name cannot be resolved", facts=(str(failed[0]),))
    if not targets:
        raise ConnectError(f"{address}: the host name was not resolved within {_budget(deadline)}")
    return targets


def _is_literal(host: str) -> bool:
    """Whether a host is an IP address."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except (OSError, UnicodeError, ValueError):
            continue
        return True
    return False


def _budget(deadline: Deadline) -> str:
    return f"the time allowed ({deadline.budget_ms} ms)"


def _open_socket(address: Address, deadline: Deadline, on_step: Callable[[ConnectStep], None]) -> socket.socket:
    """A connected TCP socket to the first of the host's addresses that answers. Raises ConnectError."""
    on_step(ConnectStep.NAME)
    targets = resolve(address, deadline)
    on_step(ConnectStep.CONNECT)
    why = ""
    for index, (family, target) in enumerate(targets):
        # If the first address is silent, there must be time left for the others.
        share = deadline.part(1 / (len(targets) - index))
        began = deadline.now()
        sock: socket.socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.settimeout(max(share.remaining(), 0.001))
            sock.connect(target)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        except TimeoutError:
            sock.close()
            deadline.waited_in_vain(began)
            why = f"no answer within {_budget(deadline)}"
        except OSError as error:
            sock.close()
            why = error.strerror or str(error)
    raise ConnectError(f"{address}: {why}")


def _tls_expected_error(address: Address, fact: str) -> WrongProtocolError:
    return WrongProtocolError(
        f"{address}: this port expects TLS; kgm connected in plaintext", facts=(fact,),
        hint="add -X security.protocol=SSL (or SASL_SSL), or use the port of a PLAINTEXT listener",
    )  # fmt: skip


class BrokerConnection:
    """An open connection with its negotiated versions. Create one with `connect`."""

    def __init__(self, sock: socket.socket, address: Address) -> None:
        self.address = address
        self.versions: dict[int, tuple[int, int]] = {}
        #: Finalized features of the cluster, and the levels of each feature that this broker supports.
        self.features: dict[str, int] = {}
        self.supported_features: dict[str, tuple[int, int]] = {}
        #: The id of the cluster at the other end: None until a broker has reported it, empty if brokers have none to
        #: report.
        self.cluster_id: str | None = None
        self.closed = False
        self._socket = sock
        self._peer: tuple[str, int] | None = None
        self._correlation_id = 0
        self._lock = threading.RLock()  # a login in the middle of a session makes calls within a call
        self._muted_until = 0.0
        self._security: Security = Plaintext()
        self._log_in_at = float("inf")

    @classmethod
    def connect(
        cls,
        address: Address,
        deadline: Deadline,
        security: Security,
        *,
        on_step: Callable[[ConnectStep], None] = _ignore_step,
    ) -> BrokerConnection:
        """Connect, secure, negotiate versions, log in. Raises KgmError, and then leaves nothing open.

        on_step: called with each step before it is taken."""
        sock = _open_socket(address, deadline, on_step)
        connection = cls(sock, address)
        connection._security = security
        try:
            connection._peer = sock.getpeername()
            on_step(ConnectStep.TLS)
            connection._socket = security.wrap(sock, address.host, deadline)
            on_step(ConnectStep.VERSIONS)
            connection._negotiate(deadline)
            on_step(ConnectStep.SASL)
            connection._log_in(deadline)
        except BaseException:
            connection.close()
            raise
        return connection

    def _log_in(self, deadline: Deadline) -> None:
        lifetime_ms = self._security.authenticate(self, deadline)
        # Java's client logs in again at 85 to 95 % of the session lifetime.
        self._log_in_at = time.monotonic() + 0.85 * lifetime_ms / 1000 if lifetime_ms else float("inf")

    def close(self) -> None:
        """Close the connection; may be repeated. A thread that is waiting in `call` gets LostError."""
        self.closed = True
        with contextlib.suppress(OSError):  # never connected, or already closed by the broker
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    @property
    def tls_version(self) -> str:
        """`TLSv1.3`; empty without TLS."""
        version = getattr(self._socket, "version", None)
        return version() or "" if version is not None else ""

    def supports(self, key: ApiKey, version: int = 0) -> bool:
        """Whether kgm and the broker both support this API at `version` or above."""
        best = self.best_version(key)
        return best is not None and best >= version

    def best_version(self, key: ApiKey) -> int | None:
        """The newest version that both sides support; None if there is none."""
        if key not in self.versions:
            return None
        lowest, highest = self.versions[key]
        best = min(highest, API[key].max_version)
        return best if best >= max(lowest, API[key].min_version) else None

    def version(self, key: ApiKey, *, at_most: int | None = None) -> int:
        """The version to use. Raises UnsupportedError, which names the ranges."""
        best = self.best_version(key)
        if best is not None and at_most is not None:
            best = min(best, at_most) if self.versions[key][0] <= at_most else None
        if best is None:
            offered = self.versions.get(key)
            ours = f"kgm supports v{API[key].min_version}-v{API[key].max_version}"
            theirs = "does not support it" if offered is None else f"supports v{offered[0]}-v{offered[1]}"
            problem = "does not support" if offered is None else "is too old or too new for"
            raise UnsupportedError(
                f"broker {self.address} {problem} {API[key].name}",
                facts=(f"{API[key].name}: the broker {theirs}, {ours}",), kafka_error=ErrorCode.UNSUPPORTED_VERSION,
            )  # fmt: skip
        return best

    def call(self, request: Message, answer: type[M], *, version: int, deadline: Deadline) -> M:
        """Send one request and read its answer.

        Raises LostError (its `sent`: whether the broker may have acted), WrongProtocolError, BadAnswerError or
        DecodeError after closing the connection. EncodeError leaves it open."""
        with self._lock:
            if time.monotonic() >= self._log_in_at:
                self._log_in_at = float("inf")
                self._log_in(deadline)
            frame = self._exchange(request, version, deadline)
            try:
                self._check_correlation(frame)
                message = self._decoded(answer, frame, version, deadline)
            except (DecodeError, BadAnswerError, LostError):
                self.close()
                raise
            # The broker mutes the connection for this long (KIP-219); requests sent before that would only queue up.
            self._muted_until = time.monotonic() + max(0, getattr(message, "throttle_time_ms", 0)) / 1000
            return message

    def _decoded(self, answer: type[M], frame: bytes, version: int, deadline: Deadline) -> M:
        """The message in a frame. A large one is decoded in a thread that is abandoned at the deadline, so the caller
        never waits longer. Raises DecodeError, LostError."""
        if len(frame) < _QUICKLY_DECODED_BYTES:
            return wire.decode_response(answer, frame, version=version)[1]
        done: list[M | BaseException] = []

        def decode() -> None:
            try:
                done.append(wire.decode_response(answer, frame, version=version)[1])
            except BaseException as error:  # noqa: BLE001  (handed to the waiting thread)
                done.append(error)

        finish_by(deadline, decode)
        if not done:
            raise LostError(
                f"broker {self.address} answered with {len(frame)} bytes, more than kgm can decode within "
                f"{_budget(deadline)}", sent=True, facts=(f"{API[answer.API_KEY].name} v{version}",),
            )  # fmt: skip
        if isinstance(done[0], BaseException):
            raise done[0]
        return done[0]

    def _exchange(self, request: Message, version: int, deadline: Deadline) -> bytes:
        if self.closed:
            raise LostError(f"the connection to broker {self.address} is closed", sent=False)
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        out = wire.framed(
            wire.encode_request(
                request, version=version, correlation_id=self._correlation_id, client_id=CLIENT_ID
            )
        )  # fmt: skip
        self._wait_out_throttle(deadline)
        sent, began = False, deadline.now()
        try:
            self._socket.settimeout(max(deadline.remaining(), 0.001))
            self._socket.sendall(out)
            sent = True
            return self._read_frame(deadline, API[request.API_KEY].name, MAX_ANSWER_BYTES.get(request.API_KEY))
        except TimeoutError as error:
            self.close()
            deadline.waited_in_vain(began)
            raise LostError(
                f"broker {self.address} did not answer within {_budget(deadline)}",
                sent=sent, facts=(f"{API[request.API_KEY].name} v{version}",),
            ) from error  # fmt: skip
        except OSError as error:
            self.close()
            # A send that failed halfway may have delivered the frame before the reset arrived.
            raise LostError(
                f"the connection to broker {self.address} broke",
                sent=True, facts=(f"{API[request.API_KEY].name} v{version}: {error.strerror or error}",),
            ) from error  # fmt: skip
        except BaseException:  # also Ctrl-C: a late response would be taken for the response to the next request
            self.close()
            raise

    def _wait_out_throttle(self, deadline: Deadline) -> None:
        wait = self._muted_until - time.monotonic()
        if wait <= 0:
            return
        if wait > deadline.remaining():
            self.close()
            raise LostError(
                f"broker {self.address} throttles kgm for {wait:.1f} s more, longer than the time allowed", sent=False
            )
        deadline.sleep(wait)

    def _read_frame(self, deadline: Deadline, api: str, most: int | None) -> bytes:
        head = self._read(4, deadline)
        length = int.from_bytes(head, "big", signed=True)
        if head[0] in _TLS_RECORDS and head[1] == 3:
            raise _tls_expected_error(self.address, f"the answer begins with a TLS record ({head.hex(' ')})")
        if head == b"HTTP":
            raise WrongProtocolError(f"{self.address}: this port serves HTTP, not the Kafka protocol")
        most = MAX_FRAME_BYTES if most is None else most
        if not 0 < length <= most:
            raise BadAnswerError(
                f"broker {self.address} announced a response of {length} bytes",
                facts=(f"kgm accepts {api} responses of 1 to {most} bytes",),
            )
        return self._read(length, deadline)

    def _read(self, count: int, deadline: Deadline) -> bytes:
        """Read exactly this many bytes. Memory grows with what arrives, not with what was announced."""
        data = bytearray()
        while len(data) < count:
            remaining = deadline.remaining()
            if remaining <= 0:
                raise TimeoutError
            self._socket.settimeout(remaining)
            chunk = self._socket.recv(min(count - len(data), _CHUNK_BYTES))
            if not chunk:
                raise ConnectionResetError(0, f"closed by the broker after {len(data)} of {count} bytes")
            data += chunk
        return bytes(data)

    def _negotiate(self, deadline: Deadline) -> None:
        """ApiVersions, newest version first. A broker that does not support that version answers with error 35 in the
        v0 format (KIP-511)."""
        try:
            answer = self._ask_versions(API[ApiKey.API_VERSIONS].max_version, deadline)
            if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
                asked = API[ApiKey.API_VERSIONS].max_version
                offered = [row.max_version for row in answer.api_keys if row.api_key == ApiKey.API_VERSIONS]
                # A version that was just refused is not requested again, whatever the broker offers.
                newest = offered[0] if offered and offered[0] < asked else _OLDEST
                answer = self._ask_versions(max(newest, _OLDEST), deadline)
        except LostError as error:
            raise self._not_understood(error, deadline) from error
        if answer.error_code:
            raise from_code(
                answer.error_code, f"broker {self.address} does not report its API versions", broker=str(self.address),
                api="ApiVersions",
            )  # fmt: skip
        self.versions = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
        self.features = {row.name: row.max_version_level for row in answer.finalized_features}
        self.supported_features = {row.name: (row.min_version, row.max_version) for row in answer.supported_features}

    def _not_understood(self, error: LostError, deadline: Deadline) -> KgmError:
        """The error for a first request that got no valid answer."""
        from kgm.client.transport import port_probe

        cause, where = error.__cause__, str(self.address)
        hint = "is this the port of a Kafka listener? if it requires a client certificate, set ssl.keystore.location"
        if isinstance(self._security, Plaintext):
            if self._peer is not None and port_probe.accepts_tls(self._peer, deadline):
                return _tls_expected_error(self.address, "a TLS handshake on a second connection was answered")
            hint = "is this the port of a Kafka listener, and one without TLS?"
        elif isinstance(cause, ConnectionError) and self._peer is not None:
            # A reset can discard the alert sent before it; a connection that sends nothing receives the alert.
            cause = port_probe.late_alert(self._security.wrap, self.address.host, self._peer, deadline)
        known = self._security.explain(cause, where)
        return known or ConnectError(error.message, facts=error.facts, hint=hint)

    def _ask_versions(self, version: int, deadline: Deadline) -> ApiVersionsResponse:
        request = ApiVersionsRequest()
        if version >= 3:
            request = ApiVersionsRequest(client_software_name="kgm", client_software_version=__version__)
        with self._lock:
            frame = self._exchange(request, version, deadline)
            if int.from_bytes(frame[4:6], "big") == ErrorCode.UNSUPPORTED_VERSION:
                version = _OLDEST
            try:
                self._check_correlation(frame)
                return wire.decode_response(ApiVersionsResponse, frame, version=version)[1]
            except DecodeError as error:
                raise WrongProtocolError(
                    f"{self.address}: the server on this port does not use the Kafka protocol", facts=(error.message,)
                ) from error

    def _check_correlation(self, frame: bytes) -> None:
        correlation_id = wire.correlation_of(frame)
        if correlation_id != self._correlation_id:
            raise BadAnswerError(
                f"broker {self.address} sent the response to another request",
                facts=(f"correlation id {correlation_id}, expected {self._correlation_id}",),
            )
