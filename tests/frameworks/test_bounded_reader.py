import pytest

from kgm.frameworks.bounded_reader import BoundedReader
from kgm.model.errors import DecodeError


@pytest.mark.parametrize("length", [b"\x7f\xff\xff\xff", b"\x00\x00\x00\x03", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00"])
@pytest.mark.parametrize(
    "read",
    [
        BoundedReader.blob,
        BoundedReader.chars,
        BoundedReader.nullable_blob,
        *(lambda reader, n=n: reader.count(n) for n in (1, 8)),
    ],
)
def test_a_length_beyond_the_bytes_is_refused(read, length):
    if read is BoundedReader.nullable_blob and length == b"\xff\xff\xff\xff":
        assert BoundedReader(length, "x").nullable_blob() is None
        return
    with pytest.raises(DecodeError, match=r"^x, before byte 4: length -?\d+, but 2 bytes are left$"):
        read(BoundedReader(length + b"ab", "x"))


@pytest.mark.parametrize(
    "read", [BoundedReader.string, BoundedReader.utf, BoundedReader.int16, BoundedReader.int32, BoundedReader.int64]
)
def test_nothing_is_left(read):
    with pytest.raises(DecodeError, match="0 are left"):
        read(BoundedReader(b"", "x"))


def test_texts_that_are_none():
    for read, data in (
        (BoundedReader.string, b"\0\1\xff"),
        (BoundedReader.utf, b"\0\1\xff"),
        (BoundedReader.chars, b"\0\0\0\1\xd8\0"),
    ):
        with pytest.raises(DecodeError, match="is not UTF-"):
            read(BoundedReader(data, "x"))
