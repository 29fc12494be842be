"""Owners and "no consumer" in charts, for readers with any kind of sight.

How a colour looks to readers who see no red or no green: the matrices of Machado, Oliveira and Fernandes (2009), for
linear light, severity 1. Differences are those of CIE 1976 (L*a*b*); 2.3 is one that is just noticeable."""

import itertools
import re

import pytest

from kgm.cli.output.pages.page import OWNER_COLOURS, document, element, label_class

#: {sight: rows for red, green and blue}.
SIGHTS = {
    "all colours": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no red": (
        (0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998),
    ),
    "no green": (
        (0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881),
    ),
}  # fmt: skip
#: sRGB to XYZ, for D65.
_XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
_WHITE = (0.95047, 1.0, 1.08883)
FAR, APART = 25, 15
PAGE = document("a page", element("p", "text"))


def times(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def linear(colour):
    """Linear light of `#rgb` or `#rrggbb`."""
    digits = colour.removeprefix("#")
    digits = "".join(2 * one for one in digits) if len(digits) == 3 else digits
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def seen(colour, sight):
    """L*a*b* of what such a reader sees."""
    light = [min(max(part, 0.0), 1.0) for part in times(SIGHTS[sight], linear(colour))]
    ratios = [part / white for part, white in zip(times(_XYZ, light), _WHITE, strict=True)]
    x, y, z = (one ** (1 / 3) if one > 0.008856 else 7.787 * one + 16 / 116 for one in ratios)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def difference(one, other, sight):
    pairs = zip(seen(one, sight), seen(other, sight), strict=True)
    return sum((a - b) ** 2 for a, b in pairs) ** 0.5


def contrast(one, other):
    """The contrast ratio of WCAG 2."""
    low, high = sorted(times(_XYZ, linear(colour))[1] for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def themes():
    """{what it is for: {variable: colour}}: on a light screen, on a dark one, on paper."""
    found = re.findall(r":root \{([^}]*)\}", PAGE)
    assert len(found) == 3
    return [dict(re.findall(r"--([a-z]+): (#[0-9a-f]+)", one)) for one in found]


def fill_of(class_):
    (value,) = re.findall(rf"{re.escape(class_)} {{ fill: ([^;}}]*?) ?[;}}]", PAGE)
    return value


def test_sight_without_red_or_green_is_simulated():
    for sight in ("no red", "no green"):
        assert difference("#d00000", "#4f4f00", sight) < difference("#d00000", "#4f4f00", "all colours")
        assert difference("#808080", "#ffffff", sight) == pytest.approx(
            difference("#808080", "#ffffff", "all colours"), rel=0.01
        )


@pytest.mark.parametrize("sight", SIGHTS)
def test_every_owner_differs_from_no_consumer_and_from_the_other_owners(sight):
    drawn = [fill_of(f".o{number}") for number in range(len(OWNER_COLOURS))]
    assert drawn == [*OWNER_COLOURS]
    assert fill_of("svg .ground") == "var(--page)"
    assert fill_of("svg .hatch") == "var(--ink)"
    for theme in themes():
        for owner in drawn:
            for part in ("ink", "page"):  # of the hatch
                assert difference(owner, theme[part], sight) > FAR, (owner, part, theme)
    for one, other in itertools.combinations(drawn, 2):
        assert difference(one, other, sight) > APART, (one, other)


def test_no_consumer_has_a_pattern_and_no_colour():
    assert re.search(r"svg \.gap \{ fill: url\(#gap\); stroke: var\(--ink\)", PAGE)
    assert PAGE.count('id="gap"') == 1
    for theme in themes():
        for part in ("ink", "page"):
            _, a, b = seen(theme[part], "all colours")
            assert abs(a) + abs(b) < 12, (part, theme)  # a grey, or nearly


def test_letters_on_owners_can_be_read():
    letters = {"in": fill_of("svg .in"), "in pale": fill_of("svg .in.pale")}
    for number, colour in enumerate(OWNER_COLOURS):
        assert contrast(colour, letters[label_class(number)]) >= 4.5, colour
