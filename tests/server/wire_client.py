"""A client of raw frames, for what well-behaved clients never send; and batches for Produce."""

import socket
import struct
from typing import Self

from kgm.protocol.apis import API, response_class
from kgm.protocol.struct import Message
from kgm.protocol.wire import decode_response, encode_request, framed
from kgm.records.batch import checksum

TIMEOUT_S = 10


class WireClient:
    """One connection."""

    def __init__(self, port: int, *, receive_buffer: int | None = None, client_id: str = "wire") -> None:
        self.socket, self.client_id = socket.socket(), client_id
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.connect(("127.0.0.1", port))
        self.correlation_id = 0
        self.sent: dict[int, tuple[type[Message], int]] = {}

    def send(self, *messages: Message, version: int | None = None, trailing: bytes = b"") -> None:
        """Send requests in one piece, each at `version` or at its highest."""
        self.socket.sendall(b"".join(self.frame(message, version=version, trailing=trailing) for message in messages))

    def frame(self, message: Message, *, version: int | None = None, trailing: bytes = b"") -> bytes:
        at = API[message.API_KEY].max_version if version is None else version
        self.correlation_id += 1
        self.sent[self.correlation_id] = (response_class(message.API_KEY), at)
        frame = encode_request(message, version=at, correlation_id=self.correlation_id, client_id=self.client_id)
        return framed(frame + trailing)

    def receive(self) -> tuple[int, Message]:
        """(correlation id, response); EOFError when the server closed the connection."""
        (length,) = struct.unpack(">i", self.exactly(4))
        frame = self.exactly(length)
        cls, version = self.sent[int.from_bytes(frame[:4], "big")]
        return decode_response(cls, frame, version=version)

    def ask(self, message: Message, *, version: int | None = None) -> Message:
        self.send(message, version=version)
        correlation_id, response = self.receive()
        assert correlation_id == self.correlation_id
        return response

    def exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise EOFError(f"closed after {len(data)} of {size} bytes")
            data += more
        return data

    def is_closed(self) -> bool:
        """Wait for the server to close; True once it did."""
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionResetError:
            return True
        return True

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def batch(count: int = 1, *, size: int = 20, timestamp: int = 1_000, attributes: int = 0, magic: int = 2) -> bytes:
    """A record batch's header and `size` bytes in place of records: the server does not look into them."""
    checked = struct.pack(">hiqqqhii", attributes, count - 1, timestamp, timestamp, -1, -1, -1, count) + b"r" * size
    body = struct.pack(">iBI", 7, magic, checksum(checked)) + checked
    return struct.pack(">qi", 0, len(body)) + body
