"""`kgm __complete`: the names that a shell offers for a word, from the cache, in a moment, or none.

    kgm __complete bash KIND LINE [BREAKS]    the command line up to the cursor, as it was typed; COMP_WORDBREAKS
    kgm __complete zsh  KIND WORD...          the words of the line, unquoted; zsh matches and quotes by itself
    kgm __complete fish KIND CURRENT WORD...  the word to be completed as it was typed, and the words before it

KIND: groups, instance-ids, member-ids, identities, profiles; with `,` behind it for an option that takes a list. One
candidate a line: for bash quoted for the place where it will stand, for the others as it is. Nothing is ever printed on
stderr, nothing asks a broker, and what a shell would act on comes quoted, or not at all."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

MOST = 5_000
_BOOTSTRAP = ("-b", "--bootstrap-server", "--bootstrap-servers", "--brokers")
_QUOTED = re.compile(r"[^A-Za-z0-9_./,+@%^:=\u0080-\U0010ffff-]")
#: Where bash itself parts words, unless COMP_WORDBREAKS says otherwise; an @ belongs to the word behind it.
_BREAKS = ":=@"


def complete(arguments: Sequence[str]) -> int:
    """Print candidates. Always 0: there is nobody to tell an error."""
    # An error would be printed into the line that somebody is typing.
    with contextlib.suppress(Exception):
        lines = candidates(arguments, os.environ)
        _write("".join(line + "\n" for line in lines).encode("utf-8", "replace"))
    return 0


def _write(data: bytes) -> None:
    """All of it: a pipe may take it in pieces."""
    while data:
        data = data[os.write(1, data) :]


def candidates(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """The lines to print."""
    shell, kind, *rest = arguments
    if shell == "bash":
        return _for_bash(kind, rest[0], rest[1] if len(rest) > 1 else _BREAKS, environment)
    if shell == "fish":
        current, words = _unquoted(rest[0])[0], rest[1:]
        head, start = _split_list(_value(current)[1], is_list=kind.endswith(","))
        names = _names(kind, words, environment)
        return _matching(names, start, lambda name: head + name)
    return _matching(_names(kind, rest, environment), "", str)


def _for_bash(kind: str, line: str, breaks: str, environment: Mapping[str, str]) -> list[str]:
    *words, raw = _split_line(line)
    plain, quote = _unquoted(raw)
    option, value = _value(plain)
    head, start = _split_list(value, is_list=kind.endswith(","))
    names = _names(kind, [_unquoted(word)[0] for word in words], environment)
    # bash replaces what stands behind the last place at which it parts words: not all of what was typed.
    kept = "" if quote else _unquoted(_broken_off(raw, breaks))[0]

    def shown(name: str) -> str:
        if quote:
            return head + name
        return _escaped((option + head + name).removeprefix(kept))

    fitting = [name for name in names if _fits(head + name, quote)]
    return _matching(fitting, start, shown)


def _matching(names: Iterable[str], start: str, shown: Callable[[str], str]) -> list[str]:
    return [shown(name) for name in sorted(set(names)) if name.startswith(start)][:MOST]


# -- words -------------------------------------------------------------------------------------------------------------


def _split_line(line: str) -> list[str]:
    """The words of a line as they were typed, the last one up to the cursor (it may be empty)."""
    words, start, quote, at = [], 0, "", 0
    while at < len(line):
        char = line[at]
        if char == "\\" and quote != "'":
            at += 1
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in " \t\n":
            if at > start:
                words.append(line[start:at])
            start = at + 1
        at += 1
    return [*words, line[start:]]


def _unquoted(raw: str) -> tuple[str, str]:
    """(the word without its quotes, the quote that is still open). Variables and the like stay as they are."""
    text, quote, at = [], "", 0
    while at < len(raw):
        char = raw[at]
        if char == "\\" and quote != "'":
            following = raw[at + 1 : at + 2]
            text.append(following if not quote or following in '"\\$`' else "\\" + following)
            at += 1
        elif quote and char == quote:
            quote = ""
        elif not quote and char in "'\"":
            quote = char
        else:
            text.append(char)
        at += 1
    return "".join(text), quote


def _value(word: str) -> tuple[str, str]:
    """(`--option=`, its value) of a word that is both."""
    if word.startswith("--") and "=" in word:
        option, _, value = word.partition("=")
        return option + "=", value
    return "", word


def _split_list(value: str, *, is_list: bool) -> tuple[str, str]:
    """(`a,b,`, the beginning of the last one) of a list with commas."""
    if not is_list:
        return "", value
    comma = max((at for at, char in enumerate(value) if char == "," and value[at - 1 : at] != "\\"), default=-1)
    return value[: comma + 1], value[comma + 1 :]


def _broken_off(raw: str, breaks: str) -> str:
    """What stands before the last place at which bash parts words: it replaces only what is behind."""
    bare = re.sub(r"\\.", "__", raw, flags=re.DOTALL)
    places = [bare.rfind(char) + (char != "@") for char in _BREAKS if char in breaks]
    return raw[: max([0, *places])]


def _escaped(text: str) -> str:
    """For a place outside of quotes."""
    text = _QUOTED.sub(lambda found: "\\" + found[0], text)
    return "\\" + text if text.startswith(("=", "%", "^")) else text


def _fits(text: str, quote: str) -> bool:
    """Whether a text is safe, and itself, behind an open quote."""
    if quote == "'":
        return "'" not in text
    return not (quote and re.search(r'["\\$`!]', text))


# -- names -------------------------------------------------------------------------------------------------------------


def _names(kind: str, words: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Every candidate of a kind, as it would be typed without a shell."""
    from kgm.text.sanitize import is_clean

    is_list, kind = kind.endswith(","), kind.removesuffix(",")
    if kind == "profiles":
        return [name for name in _profiles(environment) if is_clean(name)]
    from kgm.cli.completion.cache import file_of, read

    bootstrap, profile = _where(words, environment)
    groups = read(file_of(bootstrap, profile, environment)) if bootstrap else {}
    if kind == "groups":
        found = [name for name in groups if not name.startswith("-")]  # it would be taken for an option
    else:
        group = _option(words, ("-g", "--group")) or next((word for word in words[2:] if word in groups), None)
        kinds = {"instance-ids": ["instance_ids"], "member-ids": ["member_ids"]}.get(
            kind, ["instance_ids", "member_ids"]
        )
        found = [one for each in kinds for one in groups.get(group or "", {}).get(each, [])]
    found = [name for name in found if is_clean(name)]
    return [text for name in found if (text := _in_list(name)) is not None] if is_list else found


def _in_list(name: str) -> str | None:
    """An id as a list with commas and braces takes it; None when it cannot stand in one."""
    if name == name.strip() and not re.search(r"[\\,{}]", name):
        return name
    from kgm.model.errors import UsageError
    from kgm.text.braces import expand_list

    text = re.sub(r"([\\,{}])", r"\\\1", name)
    try:
        return text if expand_list(text, "") == [name] else None
    except UsageError:
        return None


def _option(words: Sequence[str], names: Sequence[str]) -> str | None:
    """The last value of an option on the line."""
    found = None
    for at, word in enumerate(words):
        for name in names:
            if word == name and at + 1 < len(words):
                found = words[at + 1]
            elif word.startswith(f"{name}=" if name.startswith("--") else name) and word != name:
                found = word.removeprefix(name).removeprefix("=")
    return found


def _where(words: Sequence[str], environment: Mapping[str, str]) -> tuple[str | None, str | None]:
    """(bootstrap servers, profile) as the command itself would find them."""
    flag, profile = _option(words, _BOOTSTRAP), _option(words, ["--profile"]) or environment.get("KGM_PROFILE")
    config = _option(words, ["--command-config"]) or environment.get("KGM_COMMAND_CONFIG")
    extra = [value for word, value in zip(words, [*words[1:], ""], strict=True) if word == "-X"]
    fallback = environment.get("KAFKA_BOOTSTRAP_SERVERS")
    if profile or config or extra or _config_file(environment):
        from kgm.cli.options.settings import bootstrap_of, gather

        found = gather(extra=extra, command_config=None if flag else config, profile=profile, environment=environment)
        return bootstrap_of(flag, found)[0] or fallback, found.profile
    return flag or environment.get("KGM_BOOTSTRAP_SERVER") or fallback, None


def _config_file(environment: Mapping[str, str]) -> str | None:
    home = environment.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111
    path = f"{home}/kgm/config.toml"
    return path if os.path.exists(path) else None  # noqa: PTH110


def _profiles(environment: Mapping[str, str]) -> list[str]:
    path = _config_file(environment)
    if path is None:
        return []
    import tomllib

    with open(path, "rb") as file:  # noqa: PTH123
        found = tomllib.load(file).get("profiles")
    return list(found) if isinstance(found, dict) else []
