"""Codecs whose source is in the repository (`newest_codecs`), so that Python has their bytecode when a command starts:
those of the messages that `list` and `describe` exchange with brokers of the newest Kafka. Others are compiled on first
use, about a millisecond each. What is written is what would be compiled (tests/protocol/test_written.py)."""

from __future__ import annotations

import struct
from types import FunctionType

from kgm.protocol import newest_codecs, primitives
from kgm.protocol.struct import Message

TYPE_CHECKING = False  # as in kgm/__init__.py
if TYPE_CHECKING:
    from typing import Any

_NAMES = {
    "Malformed": primitives.Malformed, "bad_length": primitives.bad_length, "read_uvarint": primitives.read_uvarint,
    "read_tags": primitives.read_tags, "uvarint": primitives.uvarint, "write_tags": primitives.write_tags,
    "SMALL": primitives.SMALL_UVARINTS, "pack": struct.pack, "unpack_from": struct.unpack_from,
}  # fmt: skip


def written_codec(function: str, cls: type[Message], version: int) -> Any:
    """`decode` or `encode` of a message as `kgm.protocol.compiler` makes it; None if its source is not here."""
    source = getattr(newest_codecs, f"{function}_{cls.__name__}_{version}", None)
    return None if source is None else FunctionType(source.__code__, names_in(source.__code__, cls), function)


def names_in(code: Any, cls: type[Message]) -> dict[str, Any]:
    """The global names of a codec of this message, and what they are, by the compiler's way of naming."""
    found: dict[str, Any] = {"__builtins__": __builtins__}
    for name in code.co_names:
        kind, _, rest = name.partition("_")
        if name in _NAMES:
            found[name] = _NAMES[name]
        elif kind == "S":
            found[name] = struct.Struct(">" + rest.replace("B_", "?"))
        elif kind in ("C", "D") and (one := cls if rest == cls.__name__ else cls.STRUCTS.get(rest)) is not None:
            found[name] = one if kind == "C" else one()
    return found
