"""The examples at the end of each command's help and manual page."""

from __future__ import annotations

from typing import Final

#: (command line, what it does) by the words of the command.
EXAMPLES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "list": (
        ("kgm list -b localhost:9092 --state stable", "the stable groups"),
        ("kgm list --topic orders --sort lag", "the groups that read a topic, largest lag first"),
        ("kgm list -o name --match 'orders-*'", "names only, for a loop"),
    ),
    "describe": (
        ("kgm describe payments", "members with instance ids, what they own, their lag"),
        ("kgm describe payments -o json > before.json", "a snapshot, for diff and simulate-bounce"),
        ("kgm describe --all-groups --state", "one line for each group"),
        ("kgm describe --topic orders --partition 7", "who owns this partition, in every group that reads it"),
        ("kgm describe --all-groups --only-lagging --sort lag", "the partitions that are behind, worst first"),
    ),
    "remove-members": (
        ("kgm remove-members payments -i payments-3 --dry-run", "what the removal would do"),
        ("kgm remove-members payments -i 'app-{1..3}' --yes --reason scale-in", "three members in one request"),
    ),
    "delete-groups": (
        ("kgm delete-groups reports-2019 --dry-run", "whether anything uses the group, and what would be deleted"),
        ("kgm delete-groups --match 'console-consumer-*' --idle-for 168h", "groups with no commits for a week"),
        ("kgm delete-groups payments --topic refunds", "the offsets of a topic that the group no longer reads"),
    ),
    "simulate-bounce": (
        ("kgm simulate-bounce payments --all --rolling --restart-time 20s", "a rolling restart of all members"),
        ("kgm simulate-bounce payments --all --rolling --fail-if-moves 0", "a gate for a runbook"),
        ("kgm simulate-bounce --members 6 --topic orders:24 --all --compare", "a group that does not exist yet"),
    ),
    "drain": (
        ("kgm drain --host 10.0.3.17", "what every group loses when a host is removed for good"),
        ("kgm drain --host 10.0.3.0/24 --restart-time 90s --fail-if-moves 0", "a gate before a rack is rebooted"),
        ("kgm drain --client-id 'orders-*' --report drain.html", "a page for a change ticket"),
    ),
    "plan": (
        ("kgm plan payments --restart-time 20s", "the best plans to restart all members: no other plan beats them"),
        ("kgm plan payments --max-unavailable 2 --keep-consuming 90%", "with limits"),
        (
            "kgm plan payments --restart-times 20s,25s,90s",
            "with measured restart times, and advice on the session timeout",
        ),
    ),
    "rollout": (
        (
            "kgm rollout payments --all --exec 'restart {instance_id}' --dry-run",
            "show every command; run none",
        ),
        (
            "kgm rollout payments --all --rolling --exec 'restart {instance_id}'",
            "a rolling restart that stops when it does not go as predicted",
        ),
        ("kgm rollout --resume payments.ndjson", "resume it after a stop"),
    ),
    "scale-in": (
        ("kgm scale-in payments --to 6", "which members leave, the predicted effect, and the commands"),
        ("kgm scale-in payments --to 6 --kubernetes --namespace shop", "if instance ids are not pod names"),
    ),
    "top": (
        ("kgm top -b localhost:9092", "all groups, worst first, until you press q"),
        ("kgm top --once -o name", "group ids, worst first"),
        ("kgm top --match 'orders-*' -o json", "one frame of a team's groups, for a script"),
    ),
    "watch": (
        (
            "kgm watch payments --expect-no-moves --until bounced --timeout 30m",
            "start it, then restart the members: verify a rolling restart as it happens",
        ),
        ("kgm watch --match 'orders-*' --timeout 10m", "all groups of a team, for ten minutes"),
    ),
    "wait": (
        ("kgm wait payments --for stable --timeout 2m", "block until the group is stable"),
        (
            "kgm wait payments --for replaced=payments-3 --baseline before.json",
            "until a new process has the instance id; before.json: kgm describe payments -o json",
        ),
        ("kgm wait payments --for 'lag-time<=1m' --timeout 10m", "until no uncommitted record is older than a minute"),
    ),
    "doctor": (
        ("kgm doctor payments", "what is wrong with a group, and what to run next"),
        ("kgm doctor --check duplicate-instance-id --fail-on info", "one check on all groups, for an alert"),
    ),
    "diff": (("kgm diff before.json live", "what has changed since the snapshot"),),
    "export": (
        ("kgm export --match 'orders-*'", "the metrics of a team's groups, once"),
        ("kgm export --listen 127.0.0.1:9797", "for a Prometheus on this host"),
        ("kgm export --textfile /var/lib/node_exporter/kgm.prom --interval 1m", "for node_exporter"),
    ),
    "assign": (("kgm assign --from-file cases.jsonl", "an assignment for each line of the file"),),
    "serve": (("kgm serve --listen 127.0.0.1:0 --topic orders:12", "a coordinator for a test"),),
    "audit": (("kgm audit --since 7d --group payments", "who removed members from a group in the last week"),),
    "history rebalances": (
        ("kgm history rebalances payments -b localhost:9092 --since 2h", "the rebalances of the last two hours"),
    ),
    "history explain": (
        ("kgm history explain payments -b localhost:9092", "why the group last rebalanced"),
        ("kgm history explain payments --source segments:/var/lib/kafka", "the same, from a copy of a broker's logs"),
    ),
    "history timeline": (("kgm history timeline payments --store history", "instance ids over time"),),
    "history movement": (("kgm history movement payments --store history", "the owners of partitions over time"),),
    "history offsets": (
        ("kgm history offsets payments -b localhost:9092 --topic orders", "why an offset jumped back or is gone"),
    ),
    "history churn": (("kgm history churn -b localhost:9092 --since 1d", "the groups that rebalance most"),),
    "history zombies": (
        ("kgm history zombies --store history", "instance ids that two processes share, or that never returned"),
    ),
    "history timeouts": (("kgm history timeouts --store history", "advice on session timeouts, and its price"),),
    "history simulate-fleet": (
        ("kgm history simulate-fleet --scenario rolling --store history", "a rolling restart of every group"),
    ),
    "history decode": (("kgm history decode --source segments:logs", "the records as JSON, one per line"),),
    "history verify": (("kgm history verify --source segments:logs", "whether records are missing or unreadable"),),
    "history capture": (
        ("kgm history capture -b localhost:9092 --out history --once", "store the records that are there now"),
    ),
    "history build": (
        ("kgm history build --store history", "build the tables that other commands read"),
        ("kgm history build --source segments:copy --out s3://bucket/history", "a store in an object store"),
    ),
    "config view": (("kgm config view --show-origin", "each setting, and where it comes from"),),
    "config list": (("kgm config list", "the clusters that --profile knows"),),
    "config test": (("kgm config test --profile prod", "why the connection fails"),),
    "demo": (("kgm demo", "the whole workflow, in about half a minute"),),
    "completion": (
        ("kgm completion bash --install", "for all new shells"),
        ("source <(kgm completion zsh)", "for this shell"),
    ),
    "version": (("kgm version -o json", "for a bug report or a script"),),
    "help": (
        ("kgm help history explain", "the same as kgm history explain --help"),
        ("kgm help --man remove-members", "the manual page"),
    ),
}
