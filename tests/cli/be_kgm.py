"""Stands for kgm where a test starts a command: kgm runs in a fork of the process that has imported it (`forked.py`).
This process passes on its standard streams, forwards the signals that end a command, and ends as the fork does. Starts
in milliseconds: python -SE.

argv[1] is the path of the Unix socket."""

import json
import os
import signal
import socket
import sys

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)  # until it is known which process they are for
    environment = dict(os.environ)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(sys.argv[1])
        request = {"arguments": sys.argv[2:], "environment": environment, "folder": os.getcwd(), "errors": "strict"}  # noqa: PTH109 (pathlib takes longer to import)
        data = json.dumps(request).encode() + b"\n"
        sent = socket.send_fds(connection, [data], [0, 1, 2])
        if sent < len(data):  # even sending nothing fails once a quick kgm has ended
            connection.sendall(data[sent:])
        answers = connection.makefile()
        pid = int(answers.readline())
        for number in FORWARDED:
            signal.signal(number, lambda number, _: os.kill(pid, number))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):  # what the fork has closed must be closed
            os.dup2(null, descriptor)
        code = int(answers.readline())
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


main()
