"""Runs kgm, and kills it at a line of its journal: `killed.py N before|torn|after ARGUMENTS...`.

before: when line N is about to be written; torn: when only a part of it is on disk; after: when all of it is on disk.
Lines are counted by their flushes, which make them durable."""

from __future__ import annotations

import os
import runpy
import signal
import sys
from pathlib import Path

_number, _how = int(sys.argv[1]), sys.argv[2]
_lines = [0]
_fsync, _write = os.fsync, os.write


def _is_journal(file: int) -> bool:
    return Path(f"/proc/self/fd/{file}").readlink().suffix == ".ndjson"


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def write(file: int, data: bytes) -> int:
    if _is_journal(file) and _lines[0] + 1 == _number:
        if _how == "before":
            _die()
        if _how == "torn":
            _write(file, bytes(data)[: len(data) // 2])
            _die()
    return _write(file, data)


def fsync(file: int) -> None:
    _fsync(file)
    if _is_journal(file):
        _lines[0] += 1
        if _lines[0] == _number:
            _die()


os.write, os.fsync = write, fsync
sys.argv = ["kgm", *sys.argv[3:]]
runpy.run_module("kgm", run_name="__main__")
