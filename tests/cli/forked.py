"""kgm in processes that are forks of one that has imported it (`fork_kgm.py`), which all workers of the run share."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

from tests.kafka.process import Child
from tests.kafka.shared import shared

#: Locales in which Python's standard streams are UTF-8 and accept any byte, and those in which they are strict UTF-8.
_OF_ANY_BYTE, _UTF_8 = ("", "C", "POSIX", "C.UTF-8"), (".UTF-8", ".utf8")


@dataclass
class Forker:
    """The process that forks."""

    folder: Path
    child: Child | None
    temporary: tempfile.TemporaryDirectory[str] | None
    environment: Mapping[str, str]

    @property
    def path(self) -> Path:
        return self.folder / "s"

    def __getstate__(self) -> dict[str, Any]:
        """The state for the workers, which do not own the process."""
        return {**self.__dict__, "child": None, "temporary": None}

    def stop(self) -> None:
        if self.child is not None and self.temporary is not None:
            self.child.kill()
            self.child.stdout.close()
            self.temporary.cleanup()


def start_forker() -> Forker:
    temporary = tempfile.TemporaryDirectory(prefix="kgm-fork-")
    folder = Path(temporary.name)
    script = Path(__file__).with_name("fork_kgm.py")
    child = Child([sys.executable, str(script), str(folder / "s")], log=folder / "log", pipe_stdout=True)
    if child.stdout.readline() != "ready\n":
        raise RuntimeError(f"nothing can be forked:\n{child.log_tail()}")
    return Forker(folder, child, temporary, of_python(os.environ))


@cache
def forker() -> Forker:
    """The forker of the run."""
    started: Forker = shared(start_forker)
    return started


def of_python(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that Python reads when it starts."""
    return {name: value for name, value in environment.items() if name.startswith("PYTHON")}


def locale_of(environment: Mapping[str, str]) -> str:
    return next(filter(None, (environment.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))), "")


def can_fork(environment: Mapping[str, str]) -> bool:
    """Whether a process with this environment may be a fork: Python would start in the same way with it."""
    locale = locale_of(environment)
    is_utf_8 = locale in _OF_ANY_BYTE or locale.endswith(_UTF_8)
    return is_utf_8 and of_python(environment) == forker().environment


def forked_command() -> list[str]:
    """A command that starts kgm, like `tests.KGM`, for tests that talk to the process while it runs, and kill it only
    with a signal that it may catch, or without looking at its output afterwards. Not for a process with a terminal."""
    return [sys.executable, "-SE", str(Path(__file__).with_name("be_kgm.py")), str(forker().path)]


def run_forked(
    arguments: Sequence[str], *, stdin: str, environment: Mapping[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Like `subprocess.run` of kgm with its output captured. Raises TimeoutExpired when it takes longer; it is then
    killed."""
    (input_, to_input), (from_output, output), (from_error, error) = os.pipe(), os.pipe(), os.pipe()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(forker().path))
        request = {
            "arguments": list(arguments), "environment": dict(environment), "folder": str(Path.cwd()),
            "errors": "surrogateescape" if locale_of(environment) in _OF_ANY_BYTE else "strict",
        }  # fmt: skip
        data = json.dumps(request).encode() + b"\n"
        sent = socket.send_fds(connection, [data], [input_, output, error])
        if sent < len(data):  # even sending nothing fails once a quick kgm has ended
            connection.sendall(data[sent:])
        for descriptor in (input_, output, error):
            os.close(descriptor)
        answers = connection.makefile()
        pid = int(answers.readline())
        texts: dict[str, str] = {}
        threads = [
            threading.Thread(target=_read, args=(os.fdopen(descriptor, encoding="utf-8"), name, texts))
            for name, descriptor in (("out", from_output), ("err", from_error))
        ]
        threads.append(threading.Thread(target=_write, args=(to_input, stdin)))
        for thread in threads:
            thread.start()
        connection.settimeout(timeout_s)
        try:
            code = int(answers.readline())
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(["kgm", *arguments], timeout_s) from None
        finally:
            answers.close()  # an error that is raised here would keep it, and so the socket, open
            for thread in threads:
                thread.join()
    return subprocess.CompletedProcess(["kgm", *arguments], code, texts["out"], texts["err"])


def _read(stream: IO[str], name: str, texts: dict[str, str]) -> None:
    with stream:
        texts[name] = stream.read()


def _write(descriptor: int, text: str) -> None:
    with contextlib.suppress(BrokenPipeError), os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
