"""Reads big-endian values one after the other. A length that exceeds the remaining bytes is an error, so it allocates
nothing."""

from __future__ import annotations

import struct
from typing import Any

from kgm.model.errors import DecodeError

_INT8, _INT16, _UINT16 = struct.Struct(">b"), struct.Struct(">h"), struct.Struct(">H")
_INT32, _INT64 = struct.Struct(">i"), struct.Struct(">q")


class BoundedReader:
    """A position in a byte string. what: the name of the bytes in errors. Every method raises DecodeError if the bytes
    end early."""

    __slots__ = ("_data", "_place", "_what")

    def __init__(self, data: bytes, what: str) -> None:
        self._data, self._what, self._place = data, what, 0

    @property
    def left(self) -> int:
        return len(self._data) - self._place

    def int8(self) -> int:
        return self._number(_INT8)

    def int16(self) -> int:
        return self._number(_INT16)

    def int32(self) -> int:
        return self._number(_INT32)

    def int64(self) -> int:
        return self._number(_INT64)

    def count(self, least_bytes: int) -> int:
        """The length of an array whose elements take at least this many bytes each."""
        return self._checked(self.int32(), least_bytes)

    def nullable_count(self, least_bytes: int) -> int | None:
        """Like `count`; None for -1."""
        count = self.int32()
        return None if count == -1 else self._checked(count, least_bytes)

    def take(self, length: int) -> bytes:
        """The next `length` bytes."""
        start = self._place
        self._place += self._checked(length, 1)
        return self._data[start : self._place]

    def blob(self) -> bytes:
        """Bytes preceded by their 32-bit length."""
        return self.take(self.int32())

    def nullable_blob(self) -> bytes | None:
        """Like `blob`; None for the length -1."""
        length = self.int32()
        return None if length == -1 else self.take(length)

    def string(self) -> str:
        """UTF-8 preceded by its 16-bit length (Kafka's STRING)."""
        return self.text(self.take(self.int16()))

    def nullable_string(self) -> str | None:
        """Like `string`; None for the length -1."""
        length = self.int16()
        return None if length == -1 else self.text(self.take(length))

    def utf(self) -> str:
        """Java's modified UTF-8 preceded by its unsigned 16-bit length (DataOutput.writeUTF): zero is two bytes, and a
        character beyond 16 bits is a pair of surrogates."""
        data = self.take(self._number(_UINT16)).replace(b"\xc0\x80", b"\0")
        try:
            return data.decode()
        except UnicodeDecodeError:
            pass
        try:
            return data.decode("utf-8", "surrogatepass").encode("utf-16-be", "surrogatepass").decode("utf-16-be")
        except UnicodeDecodeError as error:
            raise self.malformed("a text is not UTF-8") from error

    def chars(self) -> str:
        """UTF-16 preceded by the number of its code units in 32 bits (DataOutput.writeChars)."""
        data = self.take(2 * self._checked(self.int32(), 2))
        try:
            return data.decode("utf-16-be")
        except UnicodeDecodeError as error:
            raise self.malformed("a name is not UTF-16") from error

    def text(self, data: bytes) -> str:
        """Bytes as UTF-8."""
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise self.malformed("a text is not UTF-8") from error

    def malformed(self, why: str) -> DecodeError:
        return DecodeError(f"{self._what}, before byte {self._place}: {why}")

    def _number(self, form: struct.Struct) -> int:
        try:
            value: Any = form.unpack_from(self._data, self._place)[0]
        except struct.error as error:
            raise self.malformed(f"{form.size} bytes are needed, but {self.left} are left") from error
        self._place += form.size
        return int(value)

    def _checked(self, count: int, least_bytes: int) -> int:
        if not 0 <= count * least_bytes <= self.left:
            raise self.malformed(f"length {count}, but {self.left} bytes are left")
        return count
