"""All commands with the first line of their help, so that `kgm --help` imports none of them."""

from __future__ import annotations

PURPOSE = "Apache Kafka consumer-group membership: see it, simulate changes, and change it safely."
EPILOG = "The options that every command takes, such as --profile and -o, can also stand before the command."
USAGE = "COMMAND [ARGS]..."
VERSION_HELP = "Show the version and exit."
#: {name of an option: its former name, which still works but is not shown anywhere}.
OLD_NAMES = {"--match-members": "--match"}
#: Maximum line width of help texts, however wide the terminal is.
MOST_COLUMNS = 110

#: {section of the help: {name: (module, function, first line of its help)}}, in the order of the help.
SECTIONS = {
    "See": {
        "list": ("list", "list_groups", "List the visible groups: id, type, state, members."),
        "describe": ("describe", "describe", "Describe groups: members with instance ids, assignments, lag."),
        "top": ("top", "top", "Show all groups at a glance, worst first, as they change."),
        "watch": ("watch", "watch", "Watch groups change; verify a rolling restart while it happens."),
        "wait": ("wait", "wait", "Wait until a group is stable, is empty, has N members, or has a lag of at most N."),
        "diff": ("diff", "diff", "Show what changed in groups between two snapshots, files or live."),
        "doctor": ("doctor", "doctor", "Diagnose groups: what is wrong, with evidence and the next command."),
        "export": ("export", "export", "Export lag, members, rebalances and findings as OpenMetrics."),
    },
    "Predict": {
        "simulate-bounce": ("simulate_bounce", "simulate_bounce", "Predict what a planned bounce would move."),
        "drain": ("planning.drain", "drain", "Forecast what draining hosts does to all groups."),
        "plan": ("planning.plan", "plan", "Search for the cheapest way to restart the members of a group."),
        "assign": ("assign", "assign_command", "Run one of Kafka's assignors on groups from a file."),
    },
    "Change": {
        "rollout": ("planning.rollout", "rollout", "Run a planned restart as long as the prediction holds."),
        "scale-in": (
            "planning.scale_in",
            "scale_in",
            "Show which members leave when a StatefulSet is scaled in, and how.",
        ),
        "remove-members": (
            "remove_members",
            "remove_members",
            "Remove members from a group in one LeaveGroup request.",
        ),
        "delete-groups": (
            "delete_groups",
            "delete_groups",
            "Delete groups that are empty and idle, or offsets that no member needs.",
        ),
    },
    "Explain": {
        "history": (
            "history",
            "app",
            "Explain what happened to groups and why, from the records of __consumer_offsets.",
        ),
        "audit": ("audit", "audit", "Show the removals and deletions that kgm made from this machine."),
    },
    "Lab and setup": {
        "serve": ("serve", "serve", "Run the embedded coordinator, which real Kafka clients can join."),
        "demo": ("demo", "demo", "Demonstrate kgm end to end on the embedded coordinator."),
        "config": ("config", "app", "Show profiles and where settings come from; test the connection and the login."),
        "completion": ("about.completion", "completion", "Print or install the completion script for a shell."),
        "version": ("about.version", "version", "Show the versions of kgm, Python, the extras and Kafka's APIs."),
        "help": ("about.help", "help_command", "Show help for a command, or its manual page."),
    },
}
#: The commands of all sections.
COMMANDS = {name: command for commands in SECTIONS.values() for name, command in commands.items()}
#: Commands that have commands of their own.
GROUPS = [name for name, (_, function, _) in COMMANDS.items() if function == "app"]
