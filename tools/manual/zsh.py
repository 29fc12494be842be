"""completions/_kgm, for zsh."""

from __future__ import annotations

from .tree import Command, Parameter

_HEAD = r"""#compdef kgm
# zsh completion for kgm. Made by tools/generate_manual.py; do not edit.

# Names from kgm's cache: the last argument says which, those before it are for compadd. It quotes what it inserts;
# nothing is evaluated.
_kgm_names() {
    local kind=$argv[-1]
    local -a names
    names=("${(@f)$(command kgm __complete zsh "$kind" "${(@Q)kgm_words}" 2>/dev/null)}")
    names=("${(@)names:#}")
    if [[ $kind == *, ]]; then
        compset -P '*,'
        compadd "${(@)argv[1,-2]}" -S '' -- "${names[@]}"
    else
        compadd "${(@)argv[1,-2]}" -- "${names[@]}"
    fi
}
"""
_ACTIONS = {"": " ", "file": "_files", "folder": "_files -/"}


def script(tree: Command) -> str:
    lines = [_HEAD]
    for each in tree.walk():
        lines += [*_function(each), ""]
    lines += ['local -a kgm_words=("${words[@]}")', '_kgm_at "$@"', ""]
    return "\n".join(lines)


def _function(command: Command) -> list[str]:
    name = "_".join(("_kgm_at", *command.words)).replace("-", "_")
    specs = [_spec(option, one) for option in command.options for one in option.names]
    lines = [f"{name}() {{"]
    if not command.children:
        specs += [_argument(argument, at) for at, argument in enumerate(command.arguments, 1)]
        return [
            *lines,
            "    _arguments -S \\",
            *(f"        {spec} \\" for spec in specs[:-1]),
            f"        {specs[-1]}",
            "}",
        ]
    lines += ["    local curcontext=$curcontext state line", "    local -a commands", "    commands=("]
    lines += [f"        {_quoted(child.words[-1] + ':' + child.purpose)}" for child in command.children]
    lines += ["    )", "    _arguments -C \\", *(f"        {spec} \\" for spec in specs)]
    lines += ["        '1: :->command' \\", "        '*:: :->arguments'", "    case $state in"]
    lines += ["    command) _describe -t commands command commands ;;", "    arguments)", "        case $line[1] in"]
    for child in command.children:
        below = "_".join(("_kgm_at", *child.words)).replace("-", "_")
        lines.append(f"        {child.words[-1]}) {below} ;;")
    return [*lines, "        esac", "        ;;", "    esac", "}"]


def _spec(option: Parameter, name: str) -> str:
    """One of _arguments' own: (names it excludes)name[help]:metavar:action."""
    head = f"*{name}" if option.is_repeatable else f"({' '.join(option.names)}){name}"
    equals = ("=" if name.startswith("--") else "+") if option.takes_value else ""
    value = f":{_plain(option.metavar)}:{_action(option)}" if option.takes_value else ""
    return _quoted(f"{head}{equals}[{_plain(option.help)}]{value}")


def _argument(argument: Parameter, at: int) -> str:
    place = "*" if argument.is_repeatable else str(at) + ("" if argument.is_required else ":")
    return _quoted(f"{place}:{_plain(argument.metavar)}:{_action(argument)}")


def _action(parameter: Parameter) -> str:
    if parameter.kind == "words":
        return f"({' '.join(parameter.words)})"
    return _ACTIONS.get(parameter.kind, f"_kgm_names {parameter.kind}")


def _plain(text: str) -> str:
    for char in "\\[]:":
        text = text.replace(char, "\\" + char)
    return text


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
