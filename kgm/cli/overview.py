"""All commands with the first line of their help, and `kgm --help`.

The overview is written here as click writes it, because click and typer take longer to import than all the rest of it.
Where a line would be broken in a way that is not obvious, click does it."""

from __future__ import annotations

TYPE_CHECKING = False  # as in kgm/__init__.py
if TYPE_CHECKING:
    from collections.abc import Sequence

PURPOSE = "Consumer-group membership of Apache Kafka: see it, simulate changes, and change it safely."
EPILOG = "The options that every command takes, such as --profile and -o, can also stand before the command."
USAGE = "COMMAND [ARGS]..."
VERSION_HELP = "Show the version and exit."
#: No line of a help is longer, however wide the terminal is.
MOST_COLUMNS = 110
_LEAST_COLUMNS = 50

#: name: (module, function, first line of its help), in the order of the help.
COMMANDS = {
    "list": ("list", "list_groups", "List the visible groups: id, type, state, members."),
    "describe": ("describe", "describe", "Describe groups: members with instance ids, assignments, lag."),
    "remove-members": ("remove_members", "remove_members", "Remove members from a group in one LeaveGroup request."),
    "simulate-bounce": ("simulate_bounce", "simulate_bounce", "Predict what a planned bounce would move."),
    "drain": ("planning.drain", "drain", "Forecast what draining hosts does to all groups."),
    "plan": ("planning.plan", "plan", "Search for the cheapest way to restart the members of a group."),
    "rollout": ("planning.rollout", "rollout", "Carry a planned bounce out, step by step, while the prediction holds."),
    "scale-in": ("planning.scale_in", "scale_in", "Show which members go when a StatefulSet is scaled in, and how."),
    "watch": ("watch", "watch", "Watch groups change; verify a rolling restart while it happens."),
    "wait": ("wait", "wait", "Wait until a group is stable, is empty, has N members, or has a lag of at most N."),
    "doctor": ("doctor", "doctor", "Diagnose groups: what is wrong, with evidence and the next command."),
    "diff": ("diff", "diff", "Show what changed in groups between two snapshots, files or live."),
    "export": ("export", "export", "Export lag, members, rebalances and findings as OpenMetrics."),
    "assign": ("assign", "assign_command", "Run one of Kafka's assignors on groups from a file."),
    "serve": ("serve", "serve", "Run the embedded coordinator, which real Kafka clients can join."),
    "audit": ("audit", "audit", "Show the removals that kgm made from this machine, and their results."),
    "history": ("history", "app", "Explain what happened to groups and why, from the records of __consumer_offsets."),
    "config": ("config", "app", "Show where settings come from; test the connection and the login."),
    "demo": ("demo", "demo", "Demonstrate kgm end to end on the embedded coordinator."),
    "completion": ("about.completion", "completion", "Print or install the completion script of a shell."),
    "version": ("about.version", "version", "Show the versions of kgm, Python, the extras and Kafka's APIs."),
    "help": ("about.help", "help_command", "Show the help of a command, or its manual page."),
}
#: Commands that have commands of their own.
GROUPS = [name for name, (_, function, _) in COMMANDS.items() if function == "app"]


def help_text(columns: int) -> str | None:
    """What `kgm --help` shows on a terminal of this width. None where a word would have to be broken."""
    width = max(min(columns, MOST_COLUMNS) - 2, _LEAST_COLUMNS)
    blocks = [
        ["Usage: kgm [OPTIONS] " + USAGE],
        _wrapped(PURPOSE, width, "  "),
        _definitions("Options", {"--version": VERSION_HELP, "-h, --help": "Show this message and exit."}, width),
        _definitions("Commands", {name: purpose for name, (_, _, purpose) in COMMANDS.items()}, width),
        _wrapped(EPILOG, width, "  "),
    ]
    if not all(blocks):
        return None
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _definitions(title: str, rows: dict[str, str], width: int) -> list[str]:
    """A heading and two columns; empty where a word would have to be broken."""
    first = max(map(len, rows)) + 2
    lines = [f"{title}:"]
    for name, text in rows.items():
        broken = _wrapped(text, width, " " * (first + 2))
        if not broken:
            return []
        lines += ["  " + name.ljust(first) + broken[0].lstrip(" "), *broken[1:]]
    return lines


def _wrapped(text: str, width: int, indent: str) -> Sequence[str]:
    """Lines of at most so many columns. Empty where a word with a hyphen, or a long one, does not fit on its line."""
    lines, line = [], ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else indent + word
        if len(longer) <= width:
            line = longer
            continue
        if "-" in word.strip("-") or len(indent) + len(word) > width:
            return []
        lines.append(line)
        line = indent + word
    return [*lines, line]
