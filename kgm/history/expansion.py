"""Limits how much memory the records of an input may take, so that a small file cannot use all of it.

Compressed batches of a few hundred kB can hold gigabytes, or millions of groups. What is derived from a record takes
many times its bytes, above all the state that a member or a group leaves behind. So the memory is estimated while
records are read, and compared with the size of the input: 1 MiB never takes more than 512 MiB, including what Python
and its libraries take. A log that is not compressed never comes near that."""

import posixpath
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.decode.raw_batch import leading_int16
from kgm.history.places.remote_path import Place, RemoteStat
from kgm.model.errors import RefusedError
from kgm.records.record_types import RecordType

#: How much memory any input may take, and how much each byte beyond the first MiB may take. Gzipped segments of a real
#: broker take a third of that per byte.
_LEAST_BYTES: Final = 384 << 20
_FIRST_BYTES: Final = 1 << 20
_BYTES_PER_BYTE: Final = 1024
#: The most memory that each of these takes, in bytes, measured: a record; a byte of one; a byte of a record about a
#: group or its members, and a distinct key of such records.
_RECORD: Final = 2_400
_BYTE: Final = 6
_GROUP_BYTE: Final = 120
_GROUP_KEY: Final = 6_000
#: The same for the tables of a store: a byte of a row; a row that becomes an object, and a byte of it, up to printing
#: it as JSON. Commits are numerous, and are only looked at.
_KEPT_BYTE: Final = 3
_ROW: Final = 2_000
_ROW_BYTE: Final = 33
_COMMIT: Final = 300
_COMMIT_BYTE: Final = 11
#: An opened file.
_FILE: Final = 16 << 10
_COMMITTED: Final = "committed_offset"
_COMMIT_TYPES: Final = RecordType.LEGACY_OFFSET_COMMIT, RecordType.OFFSET_COMMIT


class Expansion:
    """Counts what one input expands to; the input can arrive in parts. what: names the input in errors."""

    def __init__(self, what: object) -> None:
        self._what = what
        self._size = self._made = 0
        self._files: set[object] = set()

    def grow(self, size_bytes: int) -> None:
        """Count `size_bytes` more bytes of input, which are about to be read."""
        self._size += size_bytes

    def grow_by(self, path: Place) -> None:
        """The same for a file; a file that is read again, even under another name, counts once."""
        status = path.stat()
        file: object = posixpath.normpath(str(path))
        if not isinstance(status, RemoteStat):
            file = status.st_dev, status.st_ino
        if file not in self._files:
            self._files.add(file)
            self._size += status.st_size

    def opened(self, path: Place) -> None:
        """A file of the input is about to be read. Like the methods below, raises RefusedError if that is too much."""
        self.decode(path, _FILE)

    def decode(self, path: Place, size_bytes: int) -> None:
        """Count `size_bytes` bytes that are about to be decoded from a file of the input."""
        self._made += size_bytes
        self.expect(path, 0)

    def expect(self, path: Place, size_bytes: int) -> None:
        """Check whether `size_bytes` more bytes may be made temporarily from decoded data."""
        if self._taken() + size_bytes > self._allowed():
            raise self._refusal(path)

    def _taken(self) -> int:
        """The bytes made so far."""
        return self._made

    def _allowed(self) -> int:
        return _LEAST_BYTES + _BYTES_PER_BYTE * max(self._size - _FIRST_BYTES, 0)

    def _refusal(self, path: Place) -> RefusedError:
        return RefusedError(
            f"{path} holds more than one process can read: what was read of {self._what} takes more than "
            f"{self._allowed() >> 20:,} MiB, and the files have {self._size:,} bytes",
            facts=("they repeat themselves far more than files that kgm writes",),
            hint="ask for one group or less time; if that does not help, check who can write there",
        )


class RowExpansion(Expansion):
    """The expansion of a store's tables, over everything that is read of it."""

    def opened(self, path: Place) -> None:
        self.grow_by(path)
        super().opened(path)

    def keep(self, path: Place, rows: pa.RecordBatch) -> None:
        """Count rows that were read. Raises RefusedError."""
        self.decode(path, _KEPT_BYTE * rows.nbytes)

    def count(self, path: Place, rows: pa.Table) -> None:
        """Count rows that are about to become objects. Raises RefusedError."""
        row, byte = (_COMMIT, _COMMIT_BYTE) if _COMMITTED in rows.column_names else (_ROW, _ROW_BYTE)
        self.decode(path, row * len(rows) + byte * rows.nbytes)


class RecordExpansion(Expansion):
    """The expansion of raw records. most_bytes: limit for keys and values, however large the input is; None: no such
    limit."""

    def __init__(self, what: object, most_bytes: int | None = None) -> None:
        super().__init__(what)
        self._most_bytes = most_bytes
        self._bytes = self._records = self._group_bytes = 0
        self._group_keys: set[bytes] = set()

    def expect_records(self, records: int, size_bytes: int) -> None:
        """Check, before they are read, whether the input may hold this many records, whose source has `size_bytes`
        bytes uncompressed. Raises RefusedError if it may not."""
        self._check(records, size_bytes)

    def count(self, batch: pa.RecordBatch) -> None:
        """Count records by `schema.RAW`. Raises RefusedError once there are more than the input may hold."""
        self._records += len(batch)
        self._bytes += _bytes_of(batch)
        kinds, has_kind = leading_int16(batch.column("key"))
        of_groups = pa.array(has_kind & (kinds != _COMMIT_TYPES[0]) & (kinds != _COMMIT_TYPES[1]))
        told = batch.select(["key", "value"]).filter(of_groups)
        self._group_bytes += _bytes_of(told)
        self._check()
        self._group_keys.update(pc.unique(told.column("key")).to_pylist())
        self._check()

    def _taken(self, more_records: int = 0, more_bytes: int = 0) -> int:
        return (
            self._made + _RECORD * (self._records + more_records) + _BYTE * (self._bytes + more_bytes)
            + _GROUP_BYTE * self._group_bytes + _GROUP_KEY * len(self._group_keys)
        )  # fmt: skip

    def _check(self, more_records: int = 0, more_bytes: int = 0) -> None:
        is_much = self._most_bytes is not None and self._bytes > self._most_bytes
        if self._taken(more_records, more_bytes) > self._allowed() or is_much:
            raise self._refused(self._records + more_records, self._bytes + more_bytes)

    def _refusal(self, _: Place) -> RefusedError:
        return self._refused(self._records, self._bytes)

    def _refused(self, records: int, size_bytes: int) -> RefusedError:
        return RefusedError(
            f"{self._what} holds more than one process can read: {records:,} records or more, of "
            f"{size_bytes:,} bytes, in {self._size:,} bytes",
            facts=("they are compressed, or repeat themselves far more than logs do",),
            hint="build it once, on Spark: kgm history build; then use --store DIR",
        )


def _bytes_of(batch: pa.RecordBatch) -> int:
    return sum(pc.sum(pc.binary_length(batch.column(name))).as_py() or 0 for name in ("key", "value"))
