"""Claims: they keep two captures, or two builds, from working on one store at the same time. See `kgm.pipeline.store`.

A claim is a file of one owner, renewed while it works. A claimant first puts its file and then looks for others, so of
two that claim at the same time at least one sees the other, and gives up. Ages are differences between the store's own
file times: no machine's clock matters."""

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from kgm.history.places.remote_path import Place
from kgm.history.places.small_files import listed, put
from kgm.model.errors import KgmError, RefusedError

CLAIMS: Final = "claims"
#: A claim that was not renewed for this long has expired.
TTL_S: Final = 60.0
_RENEW_S: Final = 15.0
#: The writers of this process that hold a claim.
_held: set[str] = set()


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim of one owner. what: "capture" or "build"."""

    store: Place
    what: str
    writer: str
    _stop: threading.Event = field(default_factory=threading.Event)
    #: In HDFS a file that is put again is missing for a moment, which must not count as a lost claim.
    _putting: threading.Lock = field(default_factory=threading.Lock)

    @property
    def path(self) -> Place:
        return self.store / CLAIMS / f"{self.what}-{self.writer}.json"

    def put(self) -> None:
        content = {"host": socket.gethostname(), "pid": os.getpid()}
        put(self.path, json.dumps(content).encode())

    def check(self) -> None:
        """Raises RefusedError if someone else took over, because this process did not renew its claim in time."""
        with self._putting:
            is_held = self.path.exists()
        if not is_held:
            raise RefusedError(
                f"this {self.what} has lost its claim on {self.store}: it did not run for more than {TTL_S:.0f} s",
                hint="nothing is lost: run it again",
            )

    def renew(self) -> None:
        """Renew the claim until it is given back. A failure does not matter: the next attempt may succeed."""
        while not self._stop.wait(_RENEW_S):
            with suppress(KgmError, OSError), self._putting:
                if self.path.exists():
                    self.put()


@contextmanager
def claimed(store: Place, what: str, writer: str) -> Iterator[Claim]:
    """Hold a claim. Raises RefusedError if someone else holds one."""
    claim = Claim(store, what, writer)
    _held.add(writer)
    claim.put()
    try:
        _refuse_others(claim)
        thread = threading.Thread(target=claim.renew, name=f"kgm-claim-{what}", daemon=True)
        thread.start()
        try:
            yield claim
        finally:
            claim._stop.set()  # noqa: SLF001
            thread.join()
    finally:
        with suppress(KgmError, OSError):
            claim.path.unlink(missing_ok=True)
        _held.discard(writer)


def _refuse_others(claim: Claim) -> None:
    claims = listed(claim.path.parent, f"{claim.what}-*.json")
    now_ns = max((stat.st_mtime_ns for path, stat in claims.items() if path == claim.path), default=0)
    for path, stat in claims.items():
        owner = None if path == claim.path else _owner(path)
        if owner is None:
            continue
        age_s = (now_ns - stat.st_mtime_ns) / 1e9
        if age_s > TTL_S or _has_died(owner, path):
            path.unlink(missing_ok=True)
            continue
        raise RefusedError(
            f"another {claim.what} is running on {claim.store}",
            facts=(f"it runs on {owner.get('host')}, process {owner.get('pid')}",),
            hint=f"if it is no longer running, its claim expires within {TTL_S:.0f} s",
        )


def _owner(path: Place) -> dict[str, Any] | None:
    """The content of a claim; None if it was given back."""
    try:
        content = json.loads(path.read_bytes() or b"{}")
    except (FileNotFoundError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _has_died(owner: dict[str, Any], path: Place) -> bool:
    """Whether the owner is known to be gone: a process of this machine that is not running, or had this one's pid."""
    pid = owner.get("pid")
    if owner.get("host") != socket.gethostname() or not isinstance(pid, int):
        return False
    if pid == os.getpid():
        return path.stem.rpartition("-")[2] not in _held
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
