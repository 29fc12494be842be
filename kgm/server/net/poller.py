"""Which sockets have something to read, or room to write.

The event loop watches a single descriptor for all connections: that of a separate poll, which returns all ready sockets
in one call. With one asyncio transport per connection, that alone would take as long as serving a short request."""

import select
import selectors
from typing import Protocol

READABLE, WRITABLE = 1, 4  # EPOLLIN, EPOLLOUT


class Poll(Protocol):
    """The part of `select.epoll` used here. Masks: READABLE, WRITABLE, or both; other bits are errors."""

    def fileno(self) -> int: ...

    def register(self, fd: int, mask: int, /) -> None: ...

    def modify(self, fd: int, mask: int, /) -> None: ...

    def unregister(self, fd: int, /) -> None: ...

    def poll(self, timeout: float, /) -> list[tuple[int, int]]: ...

    def close(self) -> None: ...


class SelectorPoll:
    """The same for systems without epoll."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def fileno(self) -> int:
        return self._selector.fileno()

    def register(self, fd: int, mask: int) -> None:
        self.modify(fd, mask)

    def modify(self, fd: int, mask: int) -> None:
        self.unregister(fd)
        wanted = (selectors.EVENT_READ if mask & READABLE else 0) | (selectors.EVENT_WRITE if mask & WRITABLE else 0)
        if wanted:
            self._selector.register(fd, wanted)

    def unregister(self, fd: int) -> None:
        if fd in self._selector.get_map():
            self._selector.unregister(fd)

    def poll(self, timeout: float) -> list[tuple[int, int]]:
        return [
            (key.fd, READABLE * bool(events & selectors.EVENT_READ) + WRITABLE * bool(events & selectors.EVENT_WRITE))
            for key, events in self._selector.select(timeout)
        ]

    def close(self) -> None:
        self._selector.close()


def new_poll() -> Poll:
    """A poll of the kind this system supports."""
    return select.epoll() if hasattr(select, "epoll") else SelectorPoll()
