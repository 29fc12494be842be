"""Durations as people type and read them."""

import pytest

from kgm.model.errors import UsageError
from kgm.text.durations import parse_duration, show_duration


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("500ms", 500),
        ("5s", 5000),
        ("2m", 120_000),
        ("1h", 3_600_000),
        ("0", 0),
        ("0s", 0),
        ("1.5s", 1500),
        ("1m5s", 65_000),
        ("1h30m", 5_400_000),
        ("2h1s", 7_201_000),
        ("1H2M3S", 3_723_000),
    ],  # as durations are shown
)
def test_durations(text, ms):
    assert parse_duration(text, "--timeout") == ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "5 parsecs",
        "-1s",
        "1e9s",
        "9" * 5_000,
        "1",
        "30",
        "1.5",
        "1." + "9" * 5_000 + "s",
        "5s1m",
        "1m5",
        "1m 5s",
        "1m5ms",
        "m5s",
    ],
)
def test_invalid_durations(text):
    with pytest.raises(UsageError, match="--timeout"):
        parse_duration(text, "--timeout")


@pytest.mark.parametrize(
    ("ms", "text"), [(None, "?"), (500, "500ms"), (5000, "5s"), (90_000, "1m30s"), (3_600_000, "1h"), (1500, "1.5s")]
)
def test_durations_as_text(ms, text):
    assert show_duration(ms) == text
