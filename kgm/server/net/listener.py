"""Accepts connections."""

import asyncio
import errno
import socket

from kgm.model.errors import KgmError
from kgm.server.broker import EmbeddedBroker
from kgm.server.net.connection import ClientConnection
from kgm.server.net.event_loop import ClusterDriver

_BACKLOG = 512
#: The errors that mean there is no room for another socket: nothing is accepted for a while then.
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE_S = 1.0


class Listener:
    """Accepts the connections of one broker, in the event loop in which it was started. It can be closed and started
    again."""

    def __init__(self, driver: ClusterDriver, broker: EmbeddedBroker) -> None:
        self.driver = driver
        self.broker = broker
        self.connections: set[ClientConnection] = set()
        self._sockets: list[socket.socket] = []

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; returns the address, with the actual port. Raises KgmError if the address is in use."""
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(asyncio.Protocol, host, port, start_serving=False)
            try:
                self._sockets = [bound.dup() for bound in server.sockets]
            finally:
                server.close()
            for listening in self._sockets:
                listening.settimeout(0)
                listening.listen(_BACKLOG)
        except OSError as error:
            self._stop()
            reason = error.strerror or str(error)
            raise KgmError(
                f"cannot listen on {host}:{port}: {reason}", hint="--listen 127.0.0.1:0 chooses a free port"
            ) from None
        for listening in self._sockets:
            loop.add_reader(listening, self._accept, listening)
        address = self._sockets[0].getsockname()
        return address[0], address[1]

    async def close(self) -> None:
        """Stop listening and close all connections."""
        self._stop()
        for connection in tuple(self.connections):
            connection.abort()

    def _stop(self) -> None:
        sockets, self._sockets = self._sockets, []
        for listening in sockets:
            asyncio.get_running_loop().remove_reader(listening)
            listening.close()

    def _accept(self, listening: socket.socket) -> None:
        """Accept the waiting connections."""
        for _ in range(_BACKLOG):
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
                self.driver.warn("accept", f"no connection can be accepted: {error.strerror}")
                loop = asyncio.get_running_loop()
                loop.remove_reader(listening)
                loop.call_later(_PAUSE_S, self._accept_again, listening)
                return
            self._admit(accepted)

    def _accept_again(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _admit(self, accepted: socket.socket) -> None:
        try:
            address = accepted.getpeername()[0]
        except OSError:  # the client has already closed it
            accepted.close()
            return
        connection = ClientConnection(
            accepted, self.driver, self.broker, address=address, forget=self.connections.discard
        )
        if not self.driver.admit(connection):
            accepted.close()
            return
        self.connections.add(connection)
        try:
            connection.start()
        except OSError:
            connection.abort()
