"""The table of docs/rights.md: each command over each login, without a right, with DESCRIBE only, with what it needs.

One user, one broker with StandardAuthorizer: the user's rights grow from step to step, and at each step every command
runs over every login, or without `--long` over two at the steps in between. The page shows the results (`KGM_WRITE_DOCS=1` with
`--long` writes it); a page with other results fails."""

from __future__ import annotations

import contextlib
import io
import os
import re
from dataclasses import dataclass

import pytest

from kgm.cli.main import run
from tests import ROOT
from tests.cli.test_rights import CLUSTER_COMMANDS, DEAD, PODS
from tests.kafka.secured import CANARY, TOPIC
from tests.selection import is_long, sized

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PAGE = ROOT / "docs" / "rights.md"
USER, GROUP = "matrix", "matrix-group"
#: Shown name: (listener, mechanism).
LOGINS = {
    "PLAINTEXT": ("OPEN", "-"),
    "SSL": ("OPEN_SSL", "-"),
    "SSL, own certificate": ("MTLS", "-"),
    "SASL_SSL PLAIN": ("SASL_SSL", "PLAIN"),
    "SASL_SSL SCRAM-SHA-256": ("SASL_SSL", "SCRAM-SHA-256"),
    "SASL_SSL SCRAM-SHA-512": ("SASL_SSL", "SCRAM-SHA-512"),
    "SASL_SSL OAUTHBEARER": ("SASL_SSL", "OAUTHBEARER"),
}
#: What the user gets at each step, in addition to the rights of the steps before.
STEPS = {
    "no right": [],
    "DESCRIBE on the group": [("DESCRIBE", {"group": "matrix-", "prefixed": True})],
    "and READ on it, DESCRIBE on its topics and the cluster": [
        ("READ", {"group": "matrix-", "prefixed": True}), ("DESCRIBE", {"topic": TOPIC}), ("DESCRIBE", {}),
    ],
    "and READ on `__consumer_offsets`, DESCRIBE_CONFIGS on the cluster, DELETE on the group": [
        ("READ", {"topic": "__consumer_offsets"}), ("DESCRIBE_CONFIGS", {}),
        ("DELETE", {"group": "matrix-", "prefixed": True}),
    ],
}  # fmt: skip
#: The logins of the steps in between, which the outermost steps have all of.
BETWEEN = sized(["SSL, own certificate", "SASL_SSL SCRAM-SHA-512"], list(LOGINS))
GATE = "simulate-bounce --fail-if-moves"
COMMANDS = {
    name: words for name, words in CLUSTER_COMMANDS.items() if name != "config view" and not name.startswith("history")
} | {GATE: [*CLUSTER_COMMANDS["simulate-bounce"], "--restart-time", "5s", "--fail-if-moves", "0"]}


@dataclass(frozen=True)
class Seen:
    """How a command ended. needs: the ACLs that it named."""

    code: int
    needs: tuple[str, ...]
    text: str

    @property
    def cell(self) -> str:
        return f"{self.code}: {' and '.join(self.needs)}" if self.needs else str(self.code)


@pytest.fixture(scope="module")
def seen(secured, tmp_path_factory):
    """{step: {command: {login: Seen}}}; for a login that was not tried at a step, what another one has seen."""
    folder = tmp_path_factory.mktemp("rights")
    secured.add_absent_member(GROUP, "a")
    secured.add_absent_member(f"{GROUP}-pods", "a-0")
    secured.add_dead_group(f"{GROUP}-dead")
    found = {}
    for step, rights in STEPS.items():
        for operation, where in rights:
            secured.allow(USER, operation, **where)
        found[step] = {name: {} for name in COMMANDS}
        is_between = step not in (next(iter(STEPS)), next(reversed(STEPS)))
        for login, (listener, mechanism) in LOGINS.items():
            if is_between and login not in BETWEEN:
                continue
            path = folder / "client.properties"
            settings = secured.settings(listener, USER, mechanism)
            path.touch(mode=0o600)
            path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
            for name in COMMANDS:
                found[step][name][login] = _run(_arguments(secured, name, step, login), path, name)
        for by_login in found[step].values():
            some = next(iter(by_login.values()))
            for login in LOGINS:
                by_login.setdefault(login, some)
    return found


def _arguments(secured, name, step, login):
    group = GROUP
    if name == "remove-members" and list(STEPS).index(step) >= 2:  # then it does remove
        group = f"matrix-{list(STEPS).index(step)}-{list(LOGINS).index(login)}"
        secured.add_absent_member(group, "a")
    if name == "delete-groups" and step == list(STEPS)[-1]:  # then it does delete
        group = f"matrix-{list(LOGINS).index(login)}"
        secured.add_dead_group(f"{group}-dead")
    return [
        word.replace("rights", group) if word in ("rights", "live:rights", PODS, DEAD) else word
        for word in COMMANDS[name]
    ]


def _run(arguments, path, name):
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setenv("XDG_CONFIG_HOME", str(path.parent))
        code = run([*arguments, "--command-config", str(path), "--timeout", "60s"])
    text = out.getvalue() + err.getvalue()
    assert CANARY not in text, name
    named = re.findall(
        r"(?:the principal needs|without|no) ([A-Z_]+) on (Topic '[^']+'|Group|Topic|Cluster)",
        text.replace("the cluster", "Cluster"),
    )
    acls = (f"{operation} on {kind.replace(TOPIC, 'T')}" for operation, kind in named)
    return Seen(code, tuple(sorted(set(acls))), text)


def table(seen):
    """The page."""
    lines = [
        "# What each command needs", "",
        "Every command was run over every login against a Kafka 4.3 with StandardAuthorizer, with more rights in each column;",
        "this page shows the results. A cell has the exit code and the ACLs that kgm named as missing. 4 is a refusal; 0 with",
        "an ACL means that the command did what it could, and said what it could not see. `rollout` was run with `--dry-run`:",
        "when it changes a classic group it also needs READ on `__consumer_offsets`, to count rebalances, and `watch --max-rebalances`",
        "needs that too.", "",
        f"| command | {' | '.join(STEPS)} |", f"|---|{'---|' * len(STEPS)}",
    ]  # fmt: skip
    for name in COMMANDS:
        cells = [" / ".join(dict.fromkeys(one.cell for one in seen[step][name].values())) for step in STEPS]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    lines += [
        "", "READ on the topic `__consumer_offsets` is optional. With it `top`, `watch`, `doctor`, `simulate-bounce` and `describe",
        "-o json` read what no API returns: generations, session timeouts, leaders, past rebalances. It gives access to every group of",
        "the cluster. LeaveGroup needs READ on the group, the right of every consumer: every principal that may consume may",
        "remove members. DeleteGroups needs DELETE on the group; OffsetDelete (`delete-groups --topic`) also READ on the topic.",
        "",
        "Without DESCRIBE on the cluster, or on Group `*`, brokers leave out the groups on which the login has no DESCRIBE, and say",
        "nothing of it. Where groups are not named (`list`, `top`, `describe --all-groups`, `export`, `drain`, `doctor`, `--match`),",
        "kgm warns that groups may be invisible. Then no gate is green: `doctor`, `drain --fail-if-...` and `watch` with --until or",
        "an expectation exit with 4 or 7 where they would exit with 0. An `export` that sees no group at all exits with 4 and has",
        "a `kgm_collection_errors`. Old brokers (before 2.3) do not report the rights of a login; then there is no warning.",
        "",
        "OffsetFetch leaves out topics on which the login has no DESCRIBE, and brokers say nothing of it. Nothing is hidden from a",
        "login with DESCRIBE on Topic `*`, unless an ACL denies it a topic (below). To any other login, a group's log shows which topics",
        "it has offsets of, which takes READ on `__consumer_offsets` (for up to 20 groups, in a partition of up to 16 MiB). Otherwise",
        "kgm cannot know whether there are any, and says so:",
        "",
        "- If the members name the topics that they read, lag is of the topics that the login may describe. `wait --for lag<=N`",
        "  exits with 0 and has that in SEEN; `list --lag`, `describe`, `top`, `diff` and `export` warn, and `export` has",
        "  `kgm_group_lag_partial`. `doctor --check offsets-of-other-topics` exits with 7, and `delete-groups --stale-topics` warns",
        "  that it leaves such offsets alone.",
        "- If no member names them, as in an empty group, or if the log shows offsets of a topic without DESCRIBE, lag is unknown:",
        "  `wait` exits with 7.",
        "",
        "An ACL that denies a single topic to a login with DESCRIBE on Topic `*` shows in a group's log only. kgm reads it for that",
        "where one group is described (`wait --for lag...`, `describe GROUP`, `export GROUP`), and `doctor` and `delete-groups` read it",
        "for up to 20 groups; then lag is unknown, as above. Where more groups are described (`list --lag`, `describe --all-groups`,",
        "`export`, `top`), and where the log cannot be read, for want of READ on `__consumer_offsets`, of time, or because it is longer,",
        "such an ACL is not noticed, and lag is of the other topics. Nor is an ACL that denies a group to a login with DESCRIBE on",
        "Group `*`: brokers leave the group out of lists, and `list`, `doctor`, `--match` and the like pass over it without a warning.",
        "With DESCRIBE on the cluster it is listed, and said to be one that could not be described.",
        "",
        "Where the brokers have `allow.everyone.if.no.acl.found`, whose value they do not show, topics may be hidden; that they have",
        "it takes DESCRIBE_CONFIGS on the cluster to see.",
        "",
        "A gate is not green either if partition counts had to be assumed, as without DESCRIBE on the topics:",
        "`simulate-bounce --fail-if-...`, `drain --fail-if-...` and the limits of `plan` exit with 7, and `rollout --fail-if-...`",
        "refuses (6).", "",
        "DESCRIBE_CONFIGS on the cluster is optional too: with it `simulate-bounce` and `doctor` know the broker's limits and,",
        "on Kafka 3.7 to 3.9, which coordinator it runs. Without it they say that they assume defaults, and the group may be",
        "full: a limit for a restart in which processes start before the last ones have left proves nothing (7, `rollout`",
        "refuses with 6), unless `--set group.max.size=N` states the broker's. With it `remove-members` knows the default",
        "assignor of consumer groups, which otherwise is taken to be `uniform`. Where a",
        "consumer group or a streams group has settings of its own on Kafka 4.3 or later, its session timeout is known with it",
        "only; so is that of a streams group on Kafka 4.1 and 4.2. Where that of a streams group is not known, a limit for killed",
        "members proves nothing either (7, `rollout` 6), unless `--session-timeout` states it.",
        "DESCRIBE_CONFIGS on `__consumer_offsets` shows `remove-members` and `doctor` whether commits can be written while",
        "replicas of it are not in sync ([guard.md](guard.md)).", "",
        "Exit codes by login, in the order of the columns above:", "",
        f"| command | {' | '.join(LOGINS)} |", f"|---|{'---|' * len(LOGINS)}",
    ]  # fmt: skip
    for name in COMMANDS:
        cells = [" ".join(str(seen[step][name][login].code) for step in STEPS) for login in LOGINS]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def test_the_page_shows_the_results(seen):
    text = table(seen)
    if os.environ.get("KGM_WRITE_DOCS") == "1" and is_long():
        PAGE.write_text(text)
    assert PAGE.read_text() == text, "KGM_WRITE_DOCS=1 with --long writes it again"


@pytest.mark.parametrize("name", COMMANDS)
def test_with_its_rights_each_command_succeeds_over_each_login(seen, name):
    last = seen[list(STEPS)[-1]][name]
    assert {login: (one.code, one.needs) for login, one in last.items()} == dict.fromkeys(LOGINS, (0, ())), last


@pytest.mark.few(5)
@pytest.mark.parametrize("name", COMMANDS)
def test_missing_rights_are_named_and_are_the_same_over_each_login(seen, name):
    for step in list(STEPS)[:-1]:
        cells = {one.cell for one in seen[step][name].values()}
        assert len(cells) == 1, cells
        for one in seen[step][name].values():
            assert one.code in ((0, 4, 7) if name == GATE else (0, 4)), one.text
            assert one.needs or one.code == 0, one.text
    assert all(one.needs for one in seen["no right"][name].values())


def test_only_changes_and_gates_need_more_than_describe(seen):
    step = "DESCRIBE on the group"
    needs = {"remove-members": "READ on Group", "delete-groups": "DELETE on Group", GATE: "DESCRIBE on Topic 'T'"}
    assert {name for name in COMMANDS if any(one.code for one in seen[step][name].values())} == needs.keys()
    for name, right in needs.items():
        assert all(right in one.needs for one in seen[step][name].values())
