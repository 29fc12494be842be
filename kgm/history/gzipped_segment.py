"""Decompresses a gzipped segment into a temporary file.

A small gzip file can hold gigabytes. So the batches are followed during decompression: where their lengths stop making
sense, little more is read, and no batch or segment may be larger than Kafka makes them."""

import struct
import tempfile
import zlib
from dataclasses import dataclass
from typing import IO, Final, cast

from kgm.history.places.remote_path import Place
from kgm.records.batch import BEHIND_LENGTH, HEADER, MAGIC

#: The largest batch: Kafka's `message.max.bytes` is 1 MiB unless it is set.
MAX_BATCH: Final = 32 << 20
#: The largest segment: Kafka's default for `segment.bytes`; for `__consumer_offsets` it is 100 MiB.
MAX_SEGMENT: Final = 1 << 30
#: How much is kept after the first impossible length; whole batches may follow there.
_BEYOND: Final = 4 << 20
_PIECE: Final = 1 << 18
_IN_MEMORY: Final = 16 << 20
_WITH_HEADER: Final = 31
#: Base offset, length, leader epoch, magic: the beginning of HEADER.
_START = struct.Struct(">qiib")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    """The decompressed bytes, in a file of `size` bytes. problem: why some are missing; None if none are."""

    file: IO[bytes]
    size: int
    problem: str | None


def unpack(path: Place) -> Unpacked:
    """Decompress a file, as far as possible. Raises OSError. The caller closes the file, which deletes it."""
    unpacking = _Unpacking()
    problem = None
    try:
        with path.open("rb") as packed:
            problem = unpacking.read(cast("IO[bytes]", packed))
    except zlib.error as error:
        problem = f"gzip: {error}"
    except BaseException:
        unpacking.out.close()
        raise
    return Unpacked(file=unpacking.out, size=unpacking.size, problem=problem)


class _Unpacking:
    def __init__(self) -> None:
        self.out = cast("IO[bytes]", tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY))  # noqa: SIM115
        self.size = 0
        self._next_batch = 0
        self._stop_at = MAX_SEGMENT
        self._why_stopped = f"gzip: the segment is larger than {MAX_SEGMENT >> 20} MiB"

    def read(self, packed: IO[bytes]) -> str | None:
        """Decompress gzip members one by one, with any trailing zeros. Returns why it stopped early; None if not."""
        data = packed.read(_PIECE)
        while data:
            stream = zlib.decompressobj(_WITH_HEADER)
            is_whole = False
            while not is_whole:
                piece = stream.decompress(data, _PIECE)
                self._keep(piece)
                if self.size >= self._stop_at:
                    return self._why_stopped
                is_whole = stream.eof
                # A full piece can leave output in the stream although all input was consumed.
                data = stream.unused_data if is_whole else stream.unconsumed_tail
                if not is_whole and not data and len(piece) < _PIECE and not (data := packed.read(_PIECE)):
                    return "gzip: the file ends in the middle"
            data = data or packed.read(_PIECE)
            while data and not data.strip(b"\0"):
                data = packed.read(_PIECE)
        return None

    def _keep(self, piece: bytes) -> None:
        self.out.seek(self.size)
        self.out.write(piece)
        self.size += len(piece)
        while self._stop_at == MAX_SEGMENT and self._next_batch + _START.size <= self.size:
            self.out.seek(self._next_batch)
            _, length, _, magic = _START.unpack(self.out.read(_START.size))
            if magic != MAGIC or not HEADER.size - BEHIND_LENGTH <= length <= MAX_BATCH:
                self._stop_at = self._next_batch + _BEYOND
                self._why_stopped = (
                    f"gzip: no batch at byte {self._next_batch}, and more than {_BEYOND >> 20} MiB follow"
                )
            self._next_batch += BEHIND_LENGTH + length
