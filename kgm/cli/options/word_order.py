"""Reorder the words of a command line as the commands take them.

`kgm --profile p list` becomes `kgm list --profile p`, and `kgm help list` becomes `kgm list --help`."""

from __future__ import annotations

from collections.abc import Collection, Sequence

_OF_KGM = ("-h", "--help", "--version")


def in_order(words: Sequence[str], groups: Collection[str]) -> list[str]:
    """The words with the command first. groups: commands that have subcommands. Raises UsageError."""
    if not words:
        return []
    if words[0] == "help":
        return _of_help(words)
    is_group_first = words[0] in groups and words[1:] and words[1].startswith("-")
    if (words[0].startswith("-") and words[0] not in _OF_KGM) or is_group_first:
        return _command_first(words, groups)
    return list(words)


def _of_help(words: Sequence[str]) -> list[str]:
    named = [word for word in words[1:] if not word.startswith("-")]
    return list(words) if len(named) < len(words) - 1 else [*named, "--help"]


def _command_first(words: Sequence[str], groups: Collection[str]) -> list[str]:
    """Move shared options that precede the command's name behind it, in the same order."""
    from kgm.cli.options.shared_options import takes_value
    from kgm.model.errors import UsageError

    names: list[str] = []
    moved: list[str] = []
    at = 0
    while at < len(words) and (not names or (len(names) == 1 and names[0] in groups)):
        word = words[at]
        if not word.startswith("-"):
            names.append(word)
            at += 1
            continue
        needs_value = takes_value(word)
        if needs_value is None:
            break
        end = at + (2 if needs_value else 1)
        moved += words[at:end]
        at = end
    rest = words[at:]
    if not names and not rest:
        raise UsageError("no command is given", hint="kgm --help lists the commands")
    if names[:1] == ["help"]:
        return _of_help([*names, *rest])
    if not names or (rest and rest[0] in ("-h", "--help")):
        return [*names, *rest]  # kgm itself, or --help: neither takes these options
    return [*names, *moved, *rest]
