"""Stores in directories that an older kgm wrote; the first capture or build takes them over. Until then, and until the
first build after it, kgm's readers read them as they are.

    DIR/bronze/raw/COMMIT/*.parquet      records; all of them count, and stay where they are
    DIR/checkpoints/SOURCE/...           how far each source was read, by kgm or by a Spark streaming query
    DIR/builds/NUMBER/...                the tables of a build, which the first build makes again from the records
    DIR/current, carry, kgm-history.json links to the last build and what is in it

The entries that name what was captured have fixed names, so an interrupted takeover can be repeated."""

import json
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from kgm.history.places.small_files import put
from kgm.history.store.commit_log import LOG, Commit, CommittedFile, Span, Spans
from kgm.history.store.manifest import BUILDS, MANIFEST
from kgm.model.errors import RefusedError
from kgm.pipeline.store.shown import CURRENT
from kgm.text.files import try_lock

_LOCKS = (".capture.lock", ".build.lock")
_CHECKPOINTS = "checkpoints"
_POSITIONS = "kgm-positions.json"


def take_over(store: Path) -> None:
    """Make everything count that an older kgm captured, with how far it read its sources. Raises RefusedError while one
    is working on the store."""
    with ExitStack() as stack:
        for name in _LOCKS:
            file = stack.enter_context((store / name).open("a", encoding="utf-8"))
            if not try_lock(file.fileno()):
                raise RefusedError(
                    f"{store} was written by an older kgm, and another process is working on it",
                    hint="stop it; then this kgm takes over the store",
                )
        raw = store / "bronze" / "raw"
        commits = {folder.name: _commit(raw, folder) for folder in sorted(raw.glob("*")) if _is_commit(folder)}
        for checkpoint in sorted((store / _CHECKPOINTS).glob("*")):
            commits[f"read-{checkpoint.name}"] = Commit(source=checkpoint.name, positions=_positions(checkpoint))
        entries = {"commits": {name: commit.to_json() for name, commit in commits.items()}}
        put(raw / LOG / "0-older.json", json.dumps(entries).encode())
        _unlink(store / "carry")  # today's builds have a directory there


def sweep(store: Path) -> None:
    """Delete what is no longer needed once a build has finished."""
    for folder in (store / BUILDS).iterdir():
        if folder.name.isdecimal():
            shutil.rmtree(folder)
    for name in (_CHECKPOINTS, ".staging"):
        shutil.rmtree(store / name, ignore_errors=True)
    for name in (*_LOCKS, MANIFEST):
        (store / name).unlink(missing_ok=True)
    if not (store / CURRENT).exists():
        _unlink(store / CURRENT)


def _is_commit(folder: Path) -> bool:
    return folder.is_dir() and not folder.name.startswith(("_", "."))


def _commit(raw: Path, folder: Path) -> Commit:
    files = {
        path.relative_to(raw).as_posix(): CommittedFile(size=path.stat().st_size, spans=_spans(path))
        for path in sorted(folder.glob("*.parquet"))
    }
    return Commit(files=files)


def _spans(path: Path) -> Spans:
    places = pq.read_table(path, columns=["partition", "offset"])
    rows = places.group_by("partition").aggregate([("offset", "min"), ("offset", "max"), ("offset", "count")])
    return {
        row["partition"]: Span(row["offset_min"], row["offset_max"], row["offset_count"]) for row in rows.to_pylist()
    }


def _positions(checkpoint: Path) -> dict[int, int]:
    """The next offset of each partition; for a streaming query, of its last batch that is known to be complete."""
    path = checkpoint / _POSITIONS
    if path.exists():
        return {int(number): at for number, at in json.loads(path.read_bytes())["positions"].items()}
    done = [int(each.name) for each in (checkpoint / "commits").glob("*") if each.name.isdecimal()]
    if not done:
        return {}
    line = (checkpoint / "offsets" / str(max(done))).read_text(encoding="utf-8").splitlines()[2]
    offsets: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
    nested = [each for each in offsets.values() if isinstance(each, dict)]  # Kafka's offsets are by topic
    return {int(number): offset for number, offset in (nested[0] if nested else offsets).items()}


def _unlink(link: Path) -> None:
    if link.is_symlink():
        link.unlink()
