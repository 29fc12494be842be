import pytest

from kgm.frameworks.cursor import Cursor
from kgm.model.errors import DecodeError


@pytest.mark.parametrize("length", [b"\x7f\xff\xff\xff", b"\x00\x00\x00\x03", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00"])
@pytest.mark.parametrize(
    "read",
    [Cursor.blob, Cursor.chars, Cursor.nullable_blob, *(lambda cursor, n=n: cursor.count(n) for n in (1, 8))],
)
def test_a_length_beyond_the_bytes_is_refused(read, length):
    if read is Cursor.nullable_blob and length == b"\xff\xff\xff\xff":
        assert Cursor(length, "x").nullable_blob() is None
        return
    with pytest.raises(DecodeError, match=r"^x, before byte 4: length -?\d+, and 2 bytes are left$"):
        read(Cursor(length + b"ab", "x"))


@pytest.mark.parametrize("read", [Cursor.string, Cursor.utf, Cursor.int16, Cursor.int32, Cursor.int64])
def test_nothing_is_left(read):
    with pytest.raises(DecodeError, match="0 are left"):
        read(Cursor(b"", "x"))


def test_texts_that_are_none():
    for read, data in ((Cursor.string, b"\0\1\xff"), (Cursor.utf, b"\0\1\xff"), (Cursor.chars, b"\0\0\0\1\xd8\0")):
        with pytest.raises(DecodeError, match="is not UTF-"):
            read(Cursor(data, "x"))
