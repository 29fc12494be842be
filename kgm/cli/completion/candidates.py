"""`kgm __complete`: the names that a shell offers for a word, from the cache.

    kgm __complete bash KIND LINE [BREAKS]    the command line up to the cursor, as it was typed; COMP_WORDBREAKS
    kgm __complete zsh  KIND WORD...          the words of the line, unquoted; zsh does its own matching and quoting
    kgm __complete fish KIND CURRENT WORD...  the word to complete as it was typed, and the words before it

KIND: groups, instance-ids, member-ids, identities, profiles; followed by `,` for an option that takes a list. Prints
one candidate per line: for bash, quoted for its place on the line; for the others, unquoted. Prints nothing on stderr
and sends nothing to a broker. Names that a shell would act on are quoted or left out."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

MOST = 5_000
_BOOTSTRAP = ("-b", "--bootstrap-server", "--bootstrap-servers", "--brokers")
_QUOTED = re.compile(r"[^A-Za-z0-9_./,+@%^:=\u0080-\U0010ffff-]")
#: Where bash splits words, unless COMP_WORDBREAKS says otherwise; an @ belongs to the word after it.
_BREAKS = ":=@"


def complete(arguments: Sequence[str]) -> int:
    """Print candidates. Always returns 0."""
    # Any error message would end up in the line that the user is typing.
    with contextlib.suppress(Exception):
        lines = candidates(arguments, os.environ)
        _write("".join(line + "\n" for line in lines).encode("utf-8", "replace"))
    return 0


def _write(data: bytes) -> None:
    """Write everything; a pipe may accept it only in pieces."""
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
        names = _without(_names(kind, words, environment), head)
        return _matching(names, start, lambda name: head + name)
    return _matching(_names(kind, rest, environment), "", str)


def _for_bash(kind: str, line: str, breaks: str, environment: Mapping[str, str]) -> list[str]:
    *words, raw = _split_line(line)
    plain, quote = _unquoted(raw)
    option, value = _value(plain)
    head, start = _split_list(value, is_list=kind.endswith(","))
    names = _without(_names(kind, [_unquoted(word)[0] for word in words], environment), head)
    # bash replaces only what follows the last place where it splits words.
    kept = "" if quote else _unquoted(_before_last_break(raw, breaks))[0]

    def shown(name: str) -> str:
        if quote:
            return head + name
        return _escaped((option + head + name).removeprefix(kept))

    fitting = [name for name in names if _fits(head + name, quote)]
    return _matching(fitting, start, shown)


def _without(names: Iterable[str], head: str) -> list[str]:
    """The names that are not in the list already, as far as it was typed: `a,b,`."""
    return [name for name in names if f",{name}," not in f",{head}"]


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
    """(the word without its quotes, the quote that is still open). Variables and other expansions stay as they are."""
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
    """(`--option=`, its value) for a word that has both; otherwise ("", word)."""
    if word.startswith("--") and "=" in word:
        option, _, value = word.partition("=")
        return option + "=", value
    return "", word


def _split_list(value: str, *, is_list: bool) -> tuple[str, str]:
    """(`a,b,`, the beginning of the last item) for a list with commas."""
    if not is_list:
        return "", value
    comma = max((at for at, char in enumerate(value) if char == "," and value[at - 1 : at] != "\\"), default=-1)
    return value[: comma + 1], value[comma + 1 :]


def _before_last_break(raw: str, breaks: str) -> str:
    """The part of a word before the last place where bash splits it."""
    bare = re.sub(r"\\.", "__", raw, flags=re.DOTALL)
    places = [bare.rfind(char) + (char != "@") for char in _BREAKS if char in breaks]
    return raw[: max([0, *places])]


def _escaped(text: str) -> str:
    """The text, escaped for a place outside quotes."""
    text = _QUOTED.sub(lambda match: "\\" + match[0], text)
    return "\\" + text if text.startswith(("=", "%", "^")) else text


def _fits(text: str, quote: str) -> bool:
    """Whether a shell takes the text literally after this open quote."""
    if quote == "'":
        return "'" not in text
    return not (quote and re.search(r'["\\$`!]', text))


# -- names -------------------------------------------------------------------------------------------------------------


def _names(kind: str, words: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """All candidates of a kind, unquoted."""
    from kgm.text.sanitize import is_clean

    is_list, kind = kind.endswith(","), kind.removesuffix(",")
    if kind == "profiles":
        return [name for name in _profiles(environment) if is_clean(name)]
    from kgm.cli.completion.cache import file_of, read

    bootstrap, profile = _where(words, environment)
    groups = read(file_of(bootstrap, profile, environment)) if bootstrap else {}
    if kind == "groups":
        names = [name for name in groups if not name.startswith("-")]  # it would be taken as an option
    else:
        group = _option(words, ("-g", "--group")) or next((word for word in words[2:] if word in groups), None)
        kinds = {"instance-ids": ["instance_ids"], "member-ids": ["member_ids"]}.get(
            kind, ["instance_ids", "member_ids"]
        )
        names = [one for each in kinds for one in groups.get(group or "", {}).get(each, [])]
    names = [name for name in names if is_clean(name)]
    return [_in_list(name) for name in names if name] if is_list else names


def _in_list(name: str) -> str:
    """An id escaped for a list with commas and braces."""
    if name == name.strip() and not re.search(r"[\\,{}]", name):
        return name
    from kgm.text.braces import as_list

    return as_list([name])


def _option(words: Sequence[str], names: Sequence[str]) -> str | None:
    """The last value of an option on the line; None if it is not there."""
    value = None
    for at, word in enumerate(words):
        for name in names:
            if word == name and at + 1 < len(words):
                value = words[at + 1]
            elif word.startswith(f"{name}=" if name.startswith("--") else name) and word != name:
                value = word.removeprefix(name).removeprefix("=")
    return value


def _where(words: Sequence[str], environment: Mapping[str, str]) -> tuple[str | None, str | None]:
    """(bootstrap servers, profile) as the command itself would read them."""
    flag, profile = _option(words, _BOOTSTRAP), _option(words, ["--profile"]) or environment.get("KGM_PROFILE")
    config = _option(words, ["--command-config"]) or environment.get("KGM_COMMAND_CONFIG")
    extra = [value for word, value in zip(words, [*words[1:], ""], strict=True) if word == "-X"]
    fallback = environment.get("KAFKA_BOOTSTRAP_SERVERS")
    if profile or config or extra or _config_file(environment):
        from kgm.cli.options.client_overrides import parse_overrides
        from kgm.operations.settings.loading import load_settings

        loaded = load_settings(
            overrides=parse_overrides(extra),
            properties_file=None if flag else config,
            profile=profile,
            environment=environment,
        )
        servers = loaded.bootstrap()
        return flag or (servers.value if servers else None) or fallback, loaded.profile
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
        profiles = tomllib.load(file).get("profiles")
    return list(profiles) if isinstance(profiles, dict) else []
