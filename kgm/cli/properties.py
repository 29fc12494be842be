"""Java's client.properties, as the Apache scripts take it with --command-config."""

import pathlib
import re

from kgm.model.errors import NotFoundError, UsageError

_LINE = re.compile(r"\s*((?:\\.|[^\\=:\s])+)\s*(?:[=:]\s*|\s+|$)(.*)", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: str) -> dict[str, str]:
    """Keys and values of a .properties file (java.util.Properties). Raises NotFoundError or UsageError."""
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFoundError(f"--command-config: {path} is not there") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--command-config: {path} cannot be read: {error}") from None
    found = {}
    for line in re.sub(r"\\\r?\n\s*", "", text).splitlines():
        if not line.strip() or line.lstrip()[0] in "#!":
            continue
        match = _LINE.match(line)
        if match:
            found[_unescaped(match[1])] = _unescaped(match[2])
    return found


def _unescaped(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        if match[1] is not None:
            return chr(int(match[1], 16))
        return _ESCAPES.get(match[2], match[2])

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", one, text)
