"""The command line that is being run, its cluster, and whether it changed anything: for hints to paste, for the
envelope of an error, and for the exit code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from kgm.text.shell import shell_line

_words: tuple[str, ...] = ()
_inferred: tuple[str, ...] = ()
_changed = False
_cluster: Mapping[str, str | None] | None = None
_warnings: dict[str, None] = {}
#: Options that select the cluster, as they can be typed. `-bHOST:PORT` and `--profile=NAME` are single words.
_SHORT = ("-b", "-X")
_LONG = ("--bootstrap-server", "--bootstrap-servers", "--brokers", "--command-config", "--profile")
#: Options of a command that say what it reads instead of a cluster.
_RECORDED = ("--from-file", "--store", "--source")
#: Commands that take these options. Those of `history` can read a cluster or a store.
_COMMANDS = (
    "list", "describe", "remove-members", "delete-groups", "simulate-bounce", "drain", "plan", "rollout", "scale-in",
    "top", "watch", "wait", "doctor", "diff", "export", "config test", "history explain", "history offsets",
    "history rebalances", "history timeline", "history build --source kafka", "history capture --source kafka",
)  # fmt: skip
#: A command in a text, where it can be told from prose that mentions one.
COMMAND = re.compile(
    rf"(?:^|(?<=: )|(?<=; )|(?<=\()|(?<=, then )|(?<=; then ))kgm (?:{'|'.join(_COMMANDS)})(?=[ ;,)]|$)"
)
_TEXT_FOLLOWS = re.compile("; |, |[)]")


class Ended(Exception):  # noqa: N818  (not an error: everything has been printed)
    """Ends the run with an exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def remember(words: Sequence[str]) -> None:
    """Called once per run, with all words after `kgm`."""
    global _words, _inferred, _changed, _cluster, _warnings
    _words, _inferred, _changed, _cluster, _warnings = tuple(words), (), False, None, {}


def infer_cluster(bootstrap: str) -> None:
    """Called when the cluster's address is from a variable that only reads use: a command to paste has to name it."""
    global _inferred  # noqa: PLW0603
    _inferred = ("-b", bootstrap)


def note_cluster(cluster: Mapping[str, str | None]) -> None:
    """Called once a cluster has answered, with the `cluster` of the envelope: errors that end the run name it too."""
    global _cluster  # noqa: PLW0603
    _cluster = cluster


def cluster() -> Mapping[str, str | None] | None:
    """The `cluster` of the envelope; None until one has answered, and for commands that read none."""
    return _cluster


def mark_changed() -> None:
    """Called when a cluster was or may have been changed: from then on, no failure may look as if nothing changed."""
    global _changed  # noqa: PLW0603  (a process runs one command line at a time)
    _changed = True


def has_changed() -> bool:
    return _changed


def note_warning(text: str) -> None:
    """Called with every warning that is printed, so that JSON can include it."""
    _warnings[text] = None


def warnings() -> Iterator[str]:
    """The warnings of this run, each once. Evaluated late: it includes warnings given before the first iteration."""
    yield from list(_warnings)


def again_with(*added: str, read: Sequence[str] = ()) -> str:
    """The command line with flags added, or with an option and its value, which replace what was given for it; ready to
    paste into a shell. read: words instead of `--from-file -`, for what was read from standard input, which has
    ended."""
    words = [*_without_stdin(read)]
    if len(added) > 1 and not added[1].startswith("-"):
        words = _without_option(words, added[0])
    return shell_line(["kgm", *words, *added, *_inferred])


def _without_option(words: Sequence[str], option: str) -> list[str]:
    kept, is_value = list[str](), False
    for word in words:
        if not (is_value or word == option or word.startswith(f"{option}=")):
            kept.append(word)
        is_value = word == option
    return kept


def _without_stdin(read: Sequence[str]) -> Iterator[str]:
    words = iter(_words)
    for word in words:
        following = next(words, None) if word == "--from-file" else None
        if word == "--from-file=-" or following == "-":
            yield from read
        else:
            yield from (word,) if following is None else (word, following)


def with_cluster(text: str) -> str:
    """The text, with the options that select the cluster (see `cluster_words`) added to its commands: at the end, or
    right after a command that other text may follow. A command that already says what it reads is left as it is."""
    words = list(cluster_words())
    found = list(COMMAND.finditer(text)) if words else []
    if not found:
        return text
    stated, options = {words[0], *_SHORT, *_LONG, *_RECORDED}, shell_line(words)
    ends = [one.start() for one in found[1:]] + [len(text)]
    pieces = [text[: found[0].start()]]
    for command, end in zip(found, ends, strict=True):
        rest = text[command.end() : end]
        if not stated.isdisjoint(rest.split()):
            pieces.append(f"{command[0]}{rest}")
        elif len(found) > 1 or _TEXT_FOLLOWS.search(rest):
            pieces.append(f"{command[0]} {options}{rest}")
        else:
            pieces.append(f"{command[0]}{rest} {options}")
    return "".join(pieces)


def cluster_words() -> Iterator[str]:
    """The options that select the cluster, as typed in this run, and the address that was inferred, if any."""
    takes_next = False
    for word in _words:
        if takes_next:
            yield word
            takes_next = False
        elif word in _SHORT or word in _LONG:
            yield word
            takes_next = True
        elif word.startswith((*_SHORT, *(f"{name}=" for name in _LONG))):
            yield word
    yield from _inferred
