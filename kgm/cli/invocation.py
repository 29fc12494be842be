"""The command line that is being run, and whether it changed anything: for hints to paste, and for the exit code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kgm.text.shell import shell_line

_words: tuple[str, ...] = ()
_changed = False
_warnings: dict[str, None] = {}
#: Options that select the cluster, as they can be typed. `-bHOST:PORT` and `--profile=NAME` are single words.
_SHORT = ("-b", "-X")
_LONG = ("--bootstrap-server", "--bootstrap-servers", "--brokers", "--command-config", "--profile")
#: Commands that take these options, as they begin a hint.
_COMMANDS = tuple(
    f"kgm {name} "
    for name in (
        "list", "describe", "remove-members", "delete-groups", "simulate-bounce", "drain", "plan", "rollout",
        "scale-in", "watch", "wait", "doctor", "diff", "export", "config test", "history explain", "history offsets",
    )
)  # fmt: skip


class Ended(Exception):  # noqa: N818  (not an error: everything has been printed)
    """Ends the run with an exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def remember(words: Sequence[str]) -> None:
    """Called once per run, with all words after `kgm`."""
    global _words, _changed, _warnings
    _words, _changed, _warnings = tuple(words), False, {}


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


def again_with(*added: str) -> str:
    """The command line with options added, ready to paste into a shell."""
    return shell_line(["kgm", *_words, *added])


def with_cluster(hint: str) -> str:
    """The hint; if it begins with a command, with the options that select the cluster, as typed in this run. A second
    command after `: ` gets them, too."""
    command = next((each for each in _COMMANDS if f"{hint} ".startswith(each)), None)
    words = list(cluster_words()) if command is not None else []
    if command is None or not words or not {words[0], *_SHORT, *_LONG}.isdisjoint(hint.split()):
        return hint
    if "; " in hint or ", " in hint:  # there may be text after the command
        options = f"{shell_line(words)} "
        for each in _COMMANDS:
            hint = hint.replace(f": {each}", f": {each}{options}")
        return f"{command}{options}{hint[len(command) :]}".rstrip()
    return f"{hint} {shell_line(words)}"


def cluster_words() -> Iterator[str]:
    """The options that select the cluster, as typed in this run."""
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
