"""completions/kgm.fish, for fish 3 and later."""

from __future__ import annotations

from .tree import Command, Parameter

_HEAD = r"""# fish completion for kgm. Made by tools/generate_manual.py; do not edit.

# Names from kgm's cache. fish quotes what it inserts; nothing is evaluated.
function __kgm_names
    set -l current (commandline -ct)
    command kgm __complete fish $argv[1] "$current" (commandline -opc) 2>/dev/null
end
"""


def script(tree: Command) -> str:
    lines = [_HEAD, _CONDITION, "complete -c kgm -f"]
    for each in tree.walk():
        lines += ["", *_command(each)]
    return "\n".join(lines) + "\n"


_CONDITION = r"""# Whether the line is at these words: as many of its first words as are given, options left out.
function __kgm_at
    set -l found
    for word in (commandline -opc)[2..-1]
        string match -q -- '-*' $word; or set -a found $word
    end
    set -l depth (count $argv)
    test (count $found) -ge $depth; and test "$found[1..$depth]" = "$argv"
end

# Whether it is at these words and no other follows.
function __kgm_just_at
    set -l found
    for word in (commandline -opc)[2..-1]
        string match -q -- '-*' $word; or set -a found $word
    end
    test "$found" = "$argv"
end
"""


def _command(command: Command) -> list[str]:
    words = " ".join(command.words)
    here = f"complete -c kgm -n {_quoted(f'__kgm_at {words}' if not command.children else f'__kgm_just_at {words}'.strip())}"
    lines = [f"{here} -a {child.words[-1]} -d {_quoted(child.purpose)}" for child in command.children]
    lines += [f"{here} {_names(option)}{_value(option)} -d {_quoted(option.help)}" for option in command.options]
    for argument in command.arguments[:1]:
        if argument.kind == "file":
            lines.append(f"{here} -F")
        elif argument.kind:
            lines.append(f"{here} -a {_candidates(argument)}")
    return lines


def _names(option: Parameter) -> str:
    return " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)


def _value(option: Parameter) -> str:
    if not option.takes_value:
        return ""
    if option.kind == "file":
        return " -r -F"
    if option.kind == "folder":
        return " -x -a '(__fish_complete_directories (commandline -ct))'"
    return f" -x -a {_candidates(option)}" if option.kind else " -x"


def _candidates(parameter: Parameter) -> str:
    if parameter.kind == "words":
        return _quoted(" ".join(parameter.words))
    return _quoted(f"(__kgm_names {parameter.kind})")


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
