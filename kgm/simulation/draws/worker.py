"""A process that plays draws for its parent, which sends a simulation and then numbered tasks, and gets the draws back;
or a fleet and then groups. It ends when the parent closes the connection, kills it, or is gone."""

import os
import signal
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from kgm.model.gc_threshold import collect_rarely
from kgm.simulation.draws.task import Playable


def main(file: int, parent_pid: int) -> None:
    """file: the file descriptor of the connection."""
    collect_rarely()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C also reaches the parent, which ends this process
    playable: Playable[Any, Any] | None = None
    with suppress(EOFError, OSError), Connection(file) as connection:
        while True:
            message: Any = connection.recv()
            if not isinstance(message, tuple):
                playable = message.in_process(parent_pid)
                continue
            number, task = message
            assert playable is not None
            try:
                answer = (playable.play_task(task),)
            except Exception:  # noqa: BLE001  (the parent plays it itself, and runs into the same error)
                answer = None
            if os.getppid() != parent_pid:
                return
            connection.send((number, answer))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
