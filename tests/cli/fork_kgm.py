"""Runs kgm in forks of this process, which has imported what its commands import: a run costs a tenth of the CPU of a Python
that starts. `tests/cli/forked.py` is the other side.

argv[1] is the path of a Unix socket. Each connection passes standard input, output and error as descriptors, and a JSON
object with the arguments, the environment, the working directory and how streams treat bytes that are not text. It is
answered with the process id and, when that process has ended, with the exit code, negative for a signal. Closing the
connection before that kills the process. This process ends when its own standard input does, and kills those that it has
forked.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import selectors
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

import kgm
from kgm.model.errors import KgmError

#: The longest command line with its environment.
_MOST_BYTES = 1 << 22
#: Not imported here, although they are part of kgm: they are for tests, or import Spark.
_NOT_OF_COMMANDS = ("kgm.testing", "kgm.pipeline.spark", "kgm.__main__")


#: The name of this machine for the one kgm that runs with it; kgm does not see the variable.
HOST_VARIABLE = "TESTS_HOST_NAME"


def import_all() -> None:
    for module in pkgutil.walk_packages(kgm.__path__, "kgm."):
        if not module.name.startswith(_NOT_OF_COMMANDS):
            try:
                importlib.import_module(module.name)
            except (ImportError, KgmError):  # a package that it needs is not installed
                continue


def run(request: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Be kgm, in a process that has just been forked."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["environment"])
    if HOST_VARIABLE in os.environ:
        names = list(os.uname())
        names[1] = os.environ.pop(HOST_VARIABLE)
        os.uname = lambda: os.uname_result(names)
    time.tzset()
    os.chdir(request["folder"])
    sys.argv = ["kgm", *request["arguments"]]
    sys.path[0] = request["folder"]
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        errors = "backslashreplace" if name == "stderr" else request["errors"]
        stream = open(number, mode, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115 (open as long as it runs)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    from kgm.cli.entry import main

    try:
        main()
    except SystemExit as end:
        if isinstance(end.code, int):
            leave(end.code)
        raise


def leave(code: int) -> None:
    """End as Python does, but without destroying what was imported before the fork: that would copy every page of it,
    two thirds of the CPU of a run. Returns if a stream cannot be written, which Python then reports."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError):
        for stream in (sys.stdout, sys.stderr):
            if not stream.closed:
                stream.flush()
        os._exit(code)


class Forks:
    """The running processes, and the connections that wait for them."""

    def __init__(self, listener: socket.socket, selector: selectors.BaseSelector) -> None:
        self._listener, self.selector = listener, selector
        self._waiting: dict[int, socket.socket] = {}

    def fork(self) -> None:
        connection, _ = self._listener.accept()
        data, descriptors, _, _ = socket.recv_fds(connection, _MOST_BYTES, 3)
        while not data.endswith(b"\n"):
            data += connection.recv(_MOST_BYTES)
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._listener.close()
            for other in (connection, *self._waiting.values()):
                other.close()
            run(json.loads(data), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        self._waiting[pid] = connection
        self.selector.register(connection, selectors.EVENT_READ, pid)
        self._tell(connection, pid)

    def _tell(self, connection: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError):  # no one is waiting any more
            connection.sendall(f"{number}\n".encode())

    def abandon(self, pid: int) -> None:
        """Kill a process that no one is waiting for any more."""
        self.selector.unregister(self._waiting[pid])
        os.kill(pid, signal.SIGKILL)

    def kill_all(self) -> None:
        """Kill every process that still runs: who waited for it has been killed."""
        for pid in self._waiting:
            os.kill(pid, signal.SIGKILL)

    def reap(self) -> None:
        """Answer the connections whose process has ended."""
        while self._waiting:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            with self._waiting.pop(pid) as connection:
                if connection in self.selector.get_map():
                    self.selector.unregister(connection)
                self._tell(connection, os.waitstatus_to_exitcode(status))


def serve(path: str) -> None:
    import_all()
    gc.freeze()  # otherwise the first collection of each fork copies every page
    ended, wakes = socket.socketpair()
    for one in (ended, wakes):
        one.setblocking(False)
    signal.set_wakeup_fd(wakes.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        with selectors.DefaultSelector() as selector:
            forks = Forks(listener, selector)
            for one in (listener, ended, sys.stdin):
                selector.register(one, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj: key.data for key, _ in selector.select()}
                if sys.stdin in ready:
                    forks.kill_all()
                    return
                for pid in filter(None, ready.values()):
                    forks.abandon(pid)
                if ended in ready:
                    ended.recv(4096)
                    forks.reap()
                if listener in ready:
                    forks.fork()


if __name__ == "__main__":
    sys.path[0] = str(Path(kgm.__file__).parents[1])
    serve(sys.argv[1])
