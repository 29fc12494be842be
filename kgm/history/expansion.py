"""How much memory the records of an input may take, so that a small file cannot take all of it.

Compressed batches of some hundred kB can hold gigabytes, or millions of groups. What is derived from a record takes
many times its bytes, most of all what a member or a group leaves behind. So the memory is estimated while records are
read, and compared with the size of the input: 1 MiB never takes more than 512 MiB, with what Python and its libraries
take. A log that is not compressed never comes near that."""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kgm.history.decode.raw_batch import leading_int16
from kgm.model.errors import RefusedError
from kgm.records.record_types import RecordType

#: What any input may take, and what each of its bytes beyond the first MiB may take. Gzipped segments of a real broker
#: take a third of that for each byte.
_LEAST_BYTES: Final = 384 << 20
_FIRST_BYTES: Final = 1 << 20
_BYTES_PER_BYTE: Final = 1024
#: What these take in memory at most, in bytes, measured: a record; a byte of it; a byte of one that tells of a group or
#: its members, and a different key of such records.
_RECORD: Final = 2_400
_BYTE: Final = 6
_GROUP_BYTE: Final = 120
_GROUP_KEY: Final = 6_000
_COMMIT_TYPES: Final = RecordType.LEGACY_OFFSET_COMMIT, RecordType.OFFSET_COMMIT


class Expansion:
    """Counts the records of one input, which may come in parts. what: names it in errors. most_bytes: of records,
    however large the input is; None: no such bound."""

    def __init__(self, what: object, most_bytes: int | None = None) -> None:
        self._what, self._most_bytes = what, most_bytes
        self._size = self._bytes = self._records = self._group_bytes = 0
        self._group_keys: set[bytes] = set()

    def grow(self, size_bytes: int) -> None:
        """So many bytes of input more are about to be read."""
        self._size += size_bytes

    def expect(self, records: int, size_bytes: int) -> None:
        """So many records are about to be counted, and what they are read from has so many bytes when it is not
        compressed. Raises RefusedError if that is too much."""
        self._check(records, size_bytes)

    def count(self, batch: pa.RecordBatch) -> None:
        """Records by `schema.RAW` of the input. Raises RefusedError once they are more than the input may hold."""
        self._records += len(batch)
        self._bytes += _bytes_of(batch)
        kinds, has_kind = leading_int16(batch.column("key"))
        of_groups = pa.array(has_kind & (kinds != _COMMIT_TYPES[0]) & (kinds != _COMMIT_TYPES[1]))
        told = batch.select(["key", "value"]).filter(of_groups)
        self._group_bytes += _bytes_of(told)
        self._check()
        self._group_keys.update(pc.unique(told.column("key")).to_pylist())
        self._check()

    def _check(self, more_records: int = 0, more_bytes: int = 0) -> None:
        records, size_bytes = self._records + more_records, self._bytes + more_bytes
        taken = (
            _RECORD * records + _BYTE * size_bytes + _GROUP_BYTE * self._group_bytes
            + _GROUP_KEY * len(self._group_keys)
        )  # fmt: skip
        allowed = _LEAST_BYTES + _BYTES_PER_BYTE * max(self._size - _FIRST_BYTES, 0)
        is_much = self._most_bytes is not None and self._bytes > self._most_bytes
        if taken > allowed or is_much:
            raise RefusedError(
                f"{self._what} holds more than one process can read: {records:,} records or more, of "
                f"{size_bytes:,} bytes, in {self._size:,} bytes",
                facts=("they are compressed, or repeat themselves far more than logs do",),
                hint="build it once, on Spark: kgm history build; then use --store DIR",
            )


def _bytes_of(batch: pa.RecordBatch) -> int:
    return sum(pc.sum(pc.binary_length(batch.column(name))).as_py() or 0 for name in ("key", "value"))
