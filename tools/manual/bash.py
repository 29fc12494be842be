"""completions/kgm.bash, for bash 4 and later, with or without the package bash-completion."""

from __future__ import annotations

from .tree import Command, Parameter

_HEAD = r"""# bash completion for kgm. Made by tools/generate_manual.py; do not edit.

# Names from kgm's cache, quoted for where they will stand. They are never evaluated.
_kgm_names() {
    local name
    while IFS= read -r name; do
        COMPREPLY+=("$name")
    done < <(command kgm __complete bash "$1" "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)
    if [[ $1 == *, ]]; then
        compopt -o nospace 2>/dev/null
    fi
}

# Words out of a fixed list.
_kgm_words() {
    local word
    for word in $1; do
        if [[ $word == "$2"* ]]; then
            COMPREPLY+=("$word")
        fi
    done
}

_kgm_value() {
    case $1 in
    file) compopt -o default 2>/dev/null ;;
    folder) compopt -o dirnames 2>/dev/null ;;
    words) _kgm_words "$3" "$2" ;;
    '') ;;
    *) _kgm_names "$1" ;;
    esac
}

# The words up to the cursor as they were typed: bash's own COMP_WORDS are parted at : and = too.
_kgm_split() {
    local line=${COMP_LINE:0:COMP_POINT} char quote='' word='' i
    for ((i = 0; i < ${#line}; i++)); do
        char=${line:i:1}
        if [[ $char == \\ && $quote != "'" ]]; then
            word+=${line:i:2}
            i=$((i + 1))
            continue
        elif [[ -n $quote ]]; then
            if [[ $char == "$quote" ]]; then quote=''; fi
        elif [[ $char == [\'\"] ]]; then
            quote=$char
        elif [[ $char == [[:blank:]] ]]; then
            if [[ -n $word ]]; then words+=("$word"); fi
            word=''
            continue
        fi
        word+=$char
    done
    words+=("$word")
}

_kgm() {
    local cur prev command='' word i words=()
    COMPREPLY=()
    _kgm_split
    cur=${words[${#words[@]} - 1]}
    prev=${words[${#words[@]} - 2]}
    if [[ $cur == --*=* ]]; then
        prev=${cur%%=*}
        cur=${cur#*=}
    fi
    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        word=${words[i]}
        if [[ $word == -* ]]; then
            continue
        fi
        case $command in
"""


def script(tree: Command) -> str:
    groups = [each for each in tree.walk() if each.children]
    lines = [_HEAD.rstrip("\n")]
    for group in groups:
        names = "|".join(child.words[-1] for child in group.children)
        lines += [
            f"        {_quoted(' '.join(group.words))})",
            f'            case $word in {names}) command+="${{command:+ }}$word" ;; *) break ;; esac',
            "            ;;",
        ]
    lines += ["        *) break ;;", "        esac", "    done", "    case $command in"]
    for each in tree.walk():
        lines += _branch(each)
    lines += ["    esac", "}", "", "complete -F _kgm kgm", ""]
    return "\n".join(lines)


def _branch(command: Command) -> list[str]:
    lines = [f"    {_quoted(' '.join(command.words))})"]
    with_values = [option for option in command.options if option.takes_value]
    if with_values:
        lines.append("        case $prev in")
        lines += [f"        {'|'.join(option.names)}) {_value(option)}; return ;;" for option in with_values]
        lines.append("        esac")
    names = " ".join(name for option in command.options for name in option.names)
    lines.append(f'        if [[ $cur == -* ]]; then _kgm_words {_quoted(names)} "$cur"; return; fi')
    if command.children:
        lines.append(f'        _kgm_words {_quoted(" ".join(child.words[-1] for child in command.children))} "$cur"')
    lines += [f"        {_value(argument)}" for argument in command.arguments[:1] if argument.kind]
    lines.append("        ;;")
    return lines


def _value(parameter: Parameter) -> str:
    if parameter.kind == "words":
        return f'_kgm_value words "$cur" {_quoted(" ".join(parameter.words))}'
    return f'_kgm_value {_quoted(parameter.kind)} "$cur"'


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
