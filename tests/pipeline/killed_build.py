"""A build of a store that kills itself at a step, in a process of its own.

The processes are forked from one that has imported everything: a start of Python for each would take most of the time
of a test that kills at every step."""

import multiprocessing
import os
import pickle
import shutil
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from kgm.history.places.remote_path import RemotePath, place
from kgm.pipeline import Source, StoreFormat, build
from kgm.pipeline.partition_work import derivation
from kgm.pipeline.store import bronze, layout
from kgm.pipeline.taking import writing
from tests.pipeline.kills import Killer

_LONGEST_S = 120


def without_spark(patch: pytest.MonkeyPatch) -> None:
    """Run tasks and sessions in this process."""
    from kgm.pipeline import session, tasks

    def each(_, function, works):
        return [pickle.loads(pickle.dumps(function))(pickle.loads(pickle.dumps(work))) for work in works]

    patch.setattr(tasks, "each", each)
    patch.setattr(session, "start", lambda *_: None)


@cache
def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "pyarrow.parquet", "requests", "fastcrc", "kgm.history.derive"])
    return context


@dataclass(frozen=True, slots=True, kw_only=True)
class KilledBuild:
    """step: the change of the store before or after which it dies; see `Killer`. requests: whether steps are requests
    that change something. grace_s: how long replaced builds are kept. environment: variables in addition to those of
    this process."""

    store: str
    source: str
    step: int
    format: str
    requests: bool
    grace_s: int
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(self) -> bool:
        """Run the build. Returns False if it finished before the step. Any other end is an AssertionError."""
        process = _context().Process(target=self._build, args=(dict(os.environ) | self.environment,))
        process.start()
        process.join(_LONGEST_S)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise AssertionError(f"step {self.step}: the build has not ended within {_LONGEST_S} s")
        assert process.exitcode in (0, -signal.SIGKILL), "the build failed, see above"
        return process.exitcode != 0

    def _build(self, environment: Mapping[str, str]) -> None:
        os.environ.clear()
        os.environ.update(environment)
        killer = Killer(self.step)
        if self.requests:  # requests that change something in a store that is reached over HTTP
            import requests

            plain = requests.Session.request
            killer.counts(requests.Session, "request")
            changes = requests.Session.request

            def request(session, method, *given, **named):
                return (plain if method == "GET" else changes)(session, method, *given, **named)

            requests.Session.request = request
        else:
            for name in ("write_bytes", "unlink"):
                killer.counts(RemotePath, name)
            for name in ("replace", "unlink", "symlink_to"):
                killer.counts(Path, name)
            killer.counts(os, "link")
            killer.counts(shutil, "rmtree")
            killer.counts(derivation, "write_table")
            killer.counts(writing.CaptureTarget, "write")
        bronze._FOLD = 2
        layout.GRACE_S = self.grace_s
        without_spark(pytest.MonkeyPatch())
        build(place(self.store), source=Source.parse(self.source), format=StoreFormat(self.format))
