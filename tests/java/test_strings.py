"""Java's strings: hash code, length and order."""

from kgm.java.strings import signed_string_hash, string_hash, string_length, string_order


def test_string_hashes():
    """Values of `String.hashCode` that everybody can check."""
    assert string_hash("") == 0
    assert string_hash("hello") == 99162322
    assert string_hash("polygenelubricants") == 2**31  # Integer.MIN_VALUE
    assert string_hash("\U0001f600") == 31 * 0xD83D + 0xDE00
    assert signed_string_hash("polygenelubricants") == -(2**31)
    assert signed_string_hash("hello") == 99162322


def test_lengths_and_order_go_by_utf16_unit():
    """U+1F600 is two units, the first of which sorts before U+E000."""
    assert [string_length(text) for text in ("", "abc", "ü\uffff", "\U0001f600")] == [0, 3, 2, 2]
    assert string_order(["\ue000", "b", "\U0001f600", "a"]) == [3, 1, 2, 0]
    assert string_order(["b", "a", "b"]) == [1, 0, 2]
