"""Brokers that all workers of a test run share.

pytest-xdist runs the tests in several worker processes. A broker takes about five seconds of both cores to start, so
the process that controls the workers owns the brokers: the first test that asks for a broker of some kind starts it,
the others wait for that, and all brokers end with the run. Without xdist the only process is the keeper.

Tests use groups and topics with names of their own, and look at all groups of a shared broker only in ways that allow for
others that come and go."""

from __future__ import annotations

import contextlib
import os
import pickle
import secrets
import tempfile
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any, Final

from tests.needs import UnavailableError

#: Where workers find the keeper: the path of its socket and the key that both know.
ADDRESS: Final = "KGM_TESTS_KEEPER"


class NotStartedError(RuntimeError):
    """The keeper could not start what a test asked for; has the text of the keeper's error."""


@dataclass(slots=True)
class Keeper:
    """Starts each thing once, hands out copies of it, and stops everything at the end.

    A picklable function makes a thing and returns an object with `stop()`; tests get a pickled copy, which knows
    addresses and folders, and owns no process."""

    _things: dict[Hashable, Future[Any]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _folder: tempfile.TemporaryDirectory[str] | None = None
    _listener: Listener | None = None

    def get(self, make: Callable[..., Any], *args: Hashable) -> Any:
        """The thing that `make(*args)` returns, made at most once. If making it failed, the error is raised each
        time."""
        key = (make, args)
        with self._lock:
            future = self._things.get(key)
            is_first = future is None
            if future is None:
                future = self._things[key] = Future()
        if is_first:
            try:
                future.set_result(make(*args))
            except BaseException as error:  # noqa: BLE001 (whoever asks is told)
                future.set_exception(error)
        return future.result()

    def listen(self) -> str:
        """Serve workers; returns what they need to know (`ADDRESS`)."""
        self._folder = tempfile.TemporaryDirectory(prefix="kgm-tests-")
        path, key = str(Path(self._folder.name) / "keeper"), secrets.token_hex(16)
        # The queue never gets longer than the number of workers, but all of them may ask at the same time.
        self._listener = Listener(path, "AF_UNIX", backlog=64, authkey=key.encode())
        threading.Thread(target=self._accept, daemon=True).start()
        return f"{key}@{path}"

    def _accept(self) -> None:
        assert self._listener is not None
        while True:
            try:
                connection = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        with connection, contextlib.suppress(EOFError, OSError):
            make, args = pickle.loads(connection.recv_bytes())
            try:
                answer: tuple[Any, Exception | None] = self.get(make, *args), None
            except UnavailableError as error:
                answer = None, error
            except Exception as error:  # noqa: BLE001 (told to the worker, which raises it)
                answer = None, NotStartedError(f"{type(error).__name__}: {error}")
            connection.send_bytes(pickle.dumps(answer))

    def stop(self) -> None:
        """End everything that was started."""
        if self._listener is not None:
            self._listener.close()
        for future in self._things.values():
            if future.exception() is None:
                future.result().stop()
        self._things.clear()
        if self._folder is not None:
            self._folder.cleanup()


#: The keeper of the process that controls the run; workers ask it through `ADDRESS`.
_keeper = Keeper()


def serve_workers() -> None:
    """Let the workers that this process is about to start share what they need."""
    os.environ[ADDRESS] = _keeper.listen()


def stop_all() -> None:
    """End everything that was started for this run."""
    _keeper.stop()


def shared(make: Callable[..., Any], *args: Hashable) -> Any:
    """What `make(*args)` returns, made once in a run. NotStartedError if it could not be made, UnavailableError if this
    machine lacks what that takes.

    `make` is a function of a module, and what it returns can be pickled."""
    address = os.environ.get(ADDRESS)
    if address is None or "PYTEST_XDIST_WORKER" not in os.environ:
        return pickle.loads(pickle.dumps(_keeper.get(make, *args)))
    key, _, path = address.partition("@")
    with Client(path, "AF_UNIX", authkey=key.encode()) as connection:
        connection.send_bytes(pickle.dumps((make, args)))
        thing, error = pickle.loads(connection.recv_bytes())
    if error is not None:
        raise error
    return thing
