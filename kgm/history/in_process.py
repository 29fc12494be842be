"""Reads a source that is small enough and derives its tables in this process: no Spark, nothing written."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.causes.session_timeouts import SessionLookup, no_session
from kgm.history.derive import derive
from kgm.history.folders import Damage, Reading, folders, raw_table
from kgm.history.places.parquet import damage_as_usage_error, failures_of
from kgm.history.places.remote_path import Place, check_is_directory, check_is_file
from kgm.history.raw_files import first_conflict, partition_numbers, raw_of_files
from kgm.history.schema import RAW
from kgm.history.store.sink_files import counted_files
from kgm.history.store.tables import HistoryOrigin, TablesInMemory
from kgm.model.errors import RefusedError, UsageError


def derive_source(kind: str, path: Place, *, most_bytes: int, sessions: SessionLookup | None = None) -> TablesInMemory:
    """Every table, from segments, or from Parquet or Delta files of raw records. kind: "segments", "parquet" or
    "delta"; sessions: as for `derive`. Raises MissingFileError, UsageError; RefusedError if there are more bytes to
    read than `most_bytes`."""
    reading = Reading()
    raw = read_source(kind, path, most_bytes=most_bytes, reading=reading)
    origin = HistoryOrigin(
        source=f"{kind}:{path}", last_ms=pc.max(raw.column("timestamp")).as_py(), damages=tuple(reading.damages),
        # Copies of segments are of one time; files of records may be of several.
        unconfirmed_until={} if kind == "segments" else _unconfirmed(raw),
    )  # fmt: skip
    return TablesInMemory(tables=derive(raw, session_of_group=sessions or no_session).tables, origin=origin)


def _unconfirmed(raw: pa.Table) -> dict[int, int]:
    """`HistoryOrigin.unconfirmed_until` of records by partition and offset: up to the last gap of each partition."""
    partition, offset = (raw.column(name).to_numpy() for name in ("partition", "offset"))
    ends = offset[:-1] + 1
    gaps = np.nonzero((partition[1:] == partition[:-1]) & (offset[1:] > ends))[0]
    return dict(zip(partition[gaps].tolist(), ends[gaps].tolist(), strict=True))


def derive_records(records: Iterable[tuple[int, bytes, bytes | None]]) -> TablesInMemory:
    """Every table of one partition with these records: (time in ms since 1970, key, value), in order."""
    rows = [
        {"partition": 0, "offset": offset, "timestamp": timestamp, "key": key, "value": value, "leader_epoch": 0}
        for offset, (timestamp, key, value) in enumerate(records)
    ]
    return TablesInMemory(tables=derive(pa.Table.from_pylist(rows, schema=RAW)).tables, origin=HistoryOrigin())


def read_partitions(kind: str, path: Place, *, reading: Reading) -> Iterator[pa.Table]:
    """The raw records, one partition after another, however many there are in total."""
    with failures_of(path), _damage(path):
        yield from _partitions(kind, path, reading)


def _partitions(kind: str, path: Place, reading: Reading) -> Iterator[pa.Table]:
    if kind == "segments":
        for folder in folders(path):
            yield raw_table((folder,), reading)
        return
    files = _files_of(path)
    for number in partition_numbers(files, path):
        raw = raw_of_files(files, path, partition=number, once=False)
        conflict = first_conflict(raw)
        if conflict is not None:
            reason = f"two records with offset {conflict} are not the same"
            reading.damages.append(Damage(partition=number, path=path, position=None, reason=reason, torn=False))
        yield raw


def read_source(kind: str, path: Place, *, most_bytes: int, reading: Reading) -> pa.Table:
    """The raw records, by partition and offset."""
    with failures_of(path), _damage(path):
        return _whole(kind, path, most_bytes, reading)


def _damage(path: Place) -> AbstractContextManager[None]:
    return damage_as_usage_error(
        path, "does not hold raw records that can be read",
        "a built store has them in bronze/raw; --store DIR asks the store itself",
    )  # fmt: skip


def _whole(kind: str, path: Place, most_bytes: int, reading: Reading) -> pa.Table:
    if kind == "segments":
        source = folders(path)
        _refuse_much(sum(folder.size for folder in source), most_bytes, kind, path)
        return raw_table(source, reading, most_bytes=most_bytes)
    files = _files_of(path)
    _refuse_much(sum(file.stat().st_size for file in files), most_bytes, kind, path)
    return raw_of_files(files, path, most_bytes=most_bytes)


def _files_of(path: Place) -> Sequence[Place]:
    check_is_directory(path)
    files = counted_files(path)
    if not files:
        raise UsageError(f"directory {path} holds no Parquet files")
    for file in files:
        check_is_file(file)
    return files


def _refuse_much(size: int, most_bytes: int, kind: str, path: Place) -> None:
    if size > most_bytes:
        raise RefusedError(
            f"{path} holds {size / (1 << 20):,.0f} MiB; one process reads at most {most_bytes >> 20:,} MiB",
            hint=f"build it once, on Spark: kgm history build --source {kind}:{path} --out DIR; then use --store DIR",
        )
