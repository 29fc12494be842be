"""Real interactive shells on a pseudo terminal, with kgm's completion loaded.

`kgm` itself is a script that completes as kgm does, and otherwise writes down the arguments it was called with. So
tests see exactly what a shell made of a completed line, and guess nothing from what it drew."""

from __future__ import annotations

import fcntl
import os
import pathlib
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from typing import Self

from tests import ROOT
from tests.needs import needs
from tests.waiting import can_read, until

SHELLS = ("bash", "zsh", "fish")
_START = {
    "bash": ["bash", "--noprofile", "--norc", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}
_LOAD = {
    "bash": "source {root}/completions/kgm.bash",
    "zsh": "fpath=({root}/completions $fpath); autoload -Uz compinit; compinit -u -D",
    "fish": "source {root}/completions/kgm.fish",
}
_PROGRAM = """#!/bin/sh
if [ "$1" = __complete ]; then exec {python} -m kgm "$@"; fi
printf '%s\\0' "$@" >"{said}.new" && mv "{said}.new" "{said}"
"""
LIMIT_S = 30.0


class Shell:
    """An interactive shell in an empty folder; `home` is its environment's XDG_CACHE_HOME and the like."""

    def __init__(
        self, name: str, folder: pathlib.Path, home: dict[str, str], *, program: bool = True, load: str | None = None
    ) -> None:
        """load: the line with which the shell loads the completion, if it should not read it from completions/."""
        self.load = load or _LOAD[name].format(root=ROOT)
        self.name, self.folder, self.said = name, folder, folder / "said"
        self.cwd = folder / "cwd"
        self.cwd.mkdir()
        (folder / "bin").mkdir()
        if program:
            script = folder / "bin" / "kgm"
            script.write_text(_PROGRAM.format(python=sys.executable, said=self.said))
            script.chmod(0o755)
        env = {
            **home, "PATH": f"{folder}/bin:/usr/bin:/bin", "HOME": str(folder), "TERM": "xterm", "PS1": "READY> ",
            "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8", "INPUTRC": "/dev/null", "XDG_DATA_HOME": str(folder / "data"),
        }  # fmt: skip
        self.screen = ""
        shell = needs(name)
        self.terminal, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 400, 0, 0))

        def take_terminal() -> None:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            [shell, *_START[name][1:]], stdin=other, stdout=other, stderr=other, cwd=self.cwd, env=env,
            start_new_session=True, preexec_fn=take_terminal,  # noqa: PLW1509  (before any thread matters: it only takes the terminal)
        )  # fmt: skip
        os.close(other)

    def __enter__(self) -> Self:
        self.run("kgm-is-there() { :; }" if self.name != "fish" else "function kgm-is-there; end")
        self.run(self.load)
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.terminal)

    def send(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def run(self, line: str) -> None:
        """Run a line without completion, until it ends."""
        mark = self.cwd.parent / "mark"
        mark.unlink(missing_ok=True)
        self.send(f"{line}; echo >{mark}\r")
        self.read_until(mark.exists)

    def read_until(self, condition: Callable[[], bool]) -> None:
        """Read what the shell draws until the condition holds."""

        def look() -> bool:
            if condition():
                return True
            self.read(0.05)
            return condition()

        until(look, lambda: f"{self.name} shows:\n{self.screen[-2000:]!r}", LIMIT_S)

    def read(self, seconds: float) -> None:
        if can_read(self.terminal, seconds):
            try:
                self.screen += os.read(self.terminal, 65536).decode("utf-8", "replace")
            except OSError as error:
                raise AssertionError(f"{self.name} has ended; it showed:\n{self.screen[-2000:]!r}") from error

    def complete(self, line: str, then: str = "") -> list[str]:
        """The arguments that kgm gets when the line is typed, completed with a TAB, and entered."""
        self.said.unlink(missing_ok=True)
        self.screen = ""
        self.send(line + "\t")
        self.send(then + "\r")
        self.read_until(self.said.exists)
        return self.said.read_bytes().decode().split("\0")[:-1]
