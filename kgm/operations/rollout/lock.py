"""One rollout of a group at a time, on one machine.

The lock is a file in the state directory, one for each cluster and group, that is locked as long as kgm runs. The
kernel releases the lock when the process ends, however it ends. Rollouts from two machines, or by two users, do not see
each other."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
from collections.abc import Iterator, Mapping

from kgm.model.errors import RefusedError
from kgm.operations.audit.audit_log import default_path
from kgm.text.files import try_lock

_OPEN = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_MOST_BYTES = 4096


def state_folder(environment: Mapping[str, str]) -> pathlib.Path:
    """`$XDG_STATE_HOME/kgm/rollouts`. Raises RefusedError if there is no home directory."""
    return default_path(environment).parent / "rollouts"


@contextlib.contextmanager
def rollout_lock(folder: pathlib.Path, cluster_id: str | None, group_id: str, owner: str) -> Iterator[None]:
    """Hold the lock while the rollout runs. owner: who holds it, as shown to others.

    Raises RefusedError if another rollout of the group holds it, or if the file cannot be created."""
    name = hashlib.sha256(f"{cluster_id}\0{group_id}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
    path = folder / f"{name}.lock"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(path, _OPEN, 0o600)
    except OSError as error:
        raise RefusedError(
            f"nothing was done: the lock {path} cannot be created: {error.strerror or error}",
            hint="export XDG_STATE_HOME=/a/folder/of/yours",
        ) from None
    try:
        try:
            is_ours = try_lock(file)
        except OSError as error:
            raise RefusedError(f"nothing was done: {path} cannot be locked: {error.strerror or error}") from None
        if not is_ours:
            holder = os.pread(file, _MOST_BYTES, 0).decode("utf-8", "replace")
            raise RefusedError(
                f"nothing was done: another rollout of group {group_id!r} is running",
                facts=(holder,) if holder else (),
                hint="wait until it has ended",
                group_id=group_id,
            )
        with contextlib.suppress(OSError):  # on a full disk others are not told who holds it, but it is held
            os.ftruncate(file, 0)
            os.pwrite(file, owner.encode("utf-8", "replace")[:_MOST_BYTES], 0)
        yield
    finally:
        os.close(file)
