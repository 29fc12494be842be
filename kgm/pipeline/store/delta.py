"""Writes the log that makes a directory of Parquet files a Delta table, of the simplest kind: reader 1, writer 2, one
commit for each change of which files count (https://github.com/delta-io/delta/blob/master/PROTOCOL.md).

The files are the store's own, and complete before the log names them, so kgm does not need Delta to write a table; any
Delta reader can read it, with its earlier versions. What others commit to the log, kgm reverts with its next commit."""

import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kgm.history.places.parquet import parquet_file
from kgm.history.places.remote_path import Place, at_once, below
from kgm.history.places.small_files import put
from kgm.history.store.sink_files import delta_adds

LOG: Final = "_delta_log"
_DIGITS: Final = 20
#: Readers start from the last checkpoint; there is one after this many commits.
_CHECKPOINT_EVERY: Final = 50
_PROTOCOL: Final = {"minReaderVersion": 1, "minWriterVersion": 2}
_STRINGS: Final = pa.map_(pa.string(), pa.string())
_CHECKPOINT: Final = pa.schema([
    pa.field("protocol", pa.struct({"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()})),
    pa.field("metaData", pa.struct({
        "id": pa.string(), "format": pa.struct({"provider": pa.string(), "options": _STRINGS}),
        "schemaString": pa.string(), "partitionColumns": pa.list_(pa.string()), "configuration": _STRINGS,
        "createdTime": pa.int64(),
    })),
    pa.field("add", pa.struct({
        "path": pa.string(), "partitionValues": _STRINGS, "size": pa.int64(), "modificationTime": pa.int64(),
        "dataChange": pa.bool_(), "stats": pa.string(),
    })),
])  # fmt: skip


def publish(table: Place, files: Iterable[Place], schema: str, *, now_ms: int) -> bool:
    """Make the table consist of exactly these files, all below the directory; returns whether that changed anything.
    schema: of the rows, in Spark's JSON. Only one process may call this at a time."""
    wanted = {"/".join(below(table, path)): path for path in files}
    log = table / LOG
    commits = sorted(int(path.stem) for path in log.glob("*.json") if path.stem.isdecimal())
    known = delta_adds(table) if commits else {}
    if commits and known.keys() == wanted.keys():
        return False
    version = commits[-1] + 1 if commits else 0
    about = _about(schema, now_ms) if not commits else None
    actions: list[dict[str, Any]] = [{"commitInfo": {"timestamp": now_ms, "operation": "WRITE", "engineInfo": "kgm"}}]
    if about is not None:
        actions += [{"protocol": _PROTOCOL}, {"metaData": about}]
    gone = {"deletionTimestamp": now_ms, "dataChange": True}
    actions += [{"remove": {"path": name, **gone}} for name in sorted(known.keys() - wanted.keys())]
    fresh = sorted(wanted.keys() - known.keys())
    added = dict(zip(fresh, at_once(lambda name: _add(name, wanted[name]), fresh), strict=True))
    actions += [{"add": each} for each in added.values()]
    put(log / f"{version:0{_DIGITS}}.json", "".join(json.dumps(action) + "\n" for action in actions).encode())
    if version and version % _CHECKPOINT_EVERY == 0:
        kept = {name: _as_added(name, action) for name, action in known.items() if name in wanted}
        _checkpoint(log, version, kept | added)
    return True


def _about(schema: str, now_ms: int) -> dict[str, Any]:
    return {
        "id": str(uuid.uuid4()), "format": {"provider": "parquet", "options": {}}, "schemaString": schema,
        "partitionColumns": [], "configuration": {}, "createdTime": now_ms,
    }  # fmt: skip


def _add(name: str, path: Place) -> dict[str, Any]:
    stat = path.stat()
    with parquet_file(path) as file:
        rows = file.metadata.num_rows
    return {
        "path": name, "partitionValues": {}, "size": stat.st_size, "modificationTime": stat.st_mtime_ns // 1_000_000,
        "dataChange": True, "stats": json.dumps({"numRecords": rows}),
    }  # fmt: skip


def _as_added(name: str, action: Mapping[str, Any]) -> dict[str, Any]:
    """The log's own data about a file, so that the store is not asked again."""
    return {
        "path": name, "partitionValues": {}, "size": action["size"], "modificationTime": action["modificationTime"],
        "dataChange": True, "stats": action.get("stats"),
    }  # fmt: skip


def _checkpoint(log: Place, version: int, adds: Mapping[str, Mapping[str, Any]]) -> None:
    """Write all files of the table at a version, in one file."""
    first = (log / f"{0:0{_DIGITS}}.json").read_text(encoding="utf-8").splitlines()
    about = next(action["metaData"] for action in map(json.loads, first) if "metaData" in action)
    rows: list[dict[str, Any]] = [{"protocol": _PROTOCOL}, {"metaData": about}]
    rows += [{"add": add} for _, add in sorted(adds.items())]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=_CHECKPOINT), sink)
    put(log / f"{version:0{_DIGITS}}.checkpoint.parquet", sink.getvalue().to_pybytes())
    put(log / "_last_checkpoint", json.dumps({"version": version, "size": len(rows)}).encode())
