"""Names that do harm if they are printed unchanged: ids, topics and client ids are whatever a client sent. `WIRE` has
thirty that a client can send to a broker as a name; `UNSENDABLE` can only be in files. New commands are covered by
tests/cli/test_every_command.py, which finds them in the command tree."""

from __future__ import annotations

import re
import unicodedata

from hypothesis import strategies as st

WIRE = [
    "\x1b]0;owned\x07", "\x1b[2J\x1b[H", "\x1b[31mred", "\x9b31mred", "a\nb", "a\r\nerror: b", "a\tb", "nul\0nul", "\x7f",
    "back\x08\x08\x08\x08", "\u202eevil", "\u2066x\u2069", "zero\u200bwidth", "join\u200ded", "\ufeffbom", "a\u2028b",
    "a\u2029b", "\U000e0001tag", "soft\u00adhyphen", "fill\u3164er", "=1+1", "+1", "-1", "@SUM(A1)", "[red]x[/red]",
    "[link=http://x]y[/link]", "%s%n{}{0.__class__}", "$(touch pwned)`touch pwned`", "'; touch pwned; \"", "\uff1d1+1",
]  # fmt: skip
UNSENDABLE = ["\ud800", "a\udfffb"]
HOSTILE = [*WIRE, *UNSENDABLE]

#: What commands may print on a terminal: colors, and the reset to normal.
OUR_COLORS = re.compile(r"\x1b\[(?:0|1|2|31|32|33|35|1;36)m")


def hidden(text: str, *, but: str = "\n") -> list[str]:
    """The characters of a text that are invisible or active."""
    kinds = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    return [char for char in text if char not in but and (unicodedata.category(char) in kinds or char == "\u3164")]


def is_formula(cell: str) -> bool:
    """Whether a spreadsheet would evaluate a cell."""
    return cell.startswith(("=", "+", "-", "@", "\t", "\r", "\uff1d")) and not re.fullmatch(r"-?\d+(\.\d+)?", cell)


#: JSON values with such names in them.
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(HOSTILE),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(HOSTILE), inner),
)
