"""Numbers in text from elsewhere."""

import pytest

from kgm.text.whole_numbers import whole_number


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("45000", 45_000), (str(2**63 - 1), 2**63 - 1)])
def test_a_number(text, number):
    assert whole_number(text) == number


@pytest.mark.parametrize(
    "text", [None, "", "-1", "+1", "1.5", " 1", "1_000", "\u00b2", "\u0663", "9" * 20, "9" * 5_000]
)
def test_what_is_none(text):
    assert whole_number(text) is None
