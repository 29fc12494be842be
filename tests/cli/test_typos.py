"""Slips of the hand end at once, with one line that says what is wrong; and hints can be pasted as they are."""

from __future__ import annotations

import json
import re
import shlex
import subprocess

import pytest

from kgm.cli import invocation
from kgm.cli.main import run
from kgm.cli.options.run_options import RunOptions
from kgm.text.shell import shell_line
from kgm.text.wording import group_command
from tests.client.conftest import form, group, server  # noqa: F401  (fixtures)
from tests.needs import needs

LOGS = "segments:tests/data/offsets-log/plain"


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["list", "--state", "stabel"], "--state: 'stabel' is not one of ", "did you mean Stable?"),
        (["list", "--state", "Empty,zzz"], "--state: 'zzz' is not one of ", None),
        (["list", "--type", "consumers"], "--type: 'consumers' is not one of classic, consumer", "did you mean consumer?"),
        (["history", "churn", "--source", LOGS, "--since", "1h", "--until", "2h"], "--since 1h is not before", None),
        (["list", "--timeout", "9" * 5_000], "is not a valid duration", None),
        (["history", "churn", "--source", LOGS, "--since", "9" * 5_000 + "d"], "is not a valid time", None),
        (["serve", "--listen", "h:" + "9" * 5_000], "is not HOST:PORT", None),
        (["serve", "--topic", "t:" + "9" * 5_000], "is not NAME:PARTITIONS", None),
        (["list", "-b", "user:s3cret@host:9092"], "a user or a password", None),
        (["list", "-b", "h:" + "9" * 5_000], "a port is a number", None),
        (["list", "-X", "sasl.mechanism=OAUTHBEARER", "-X", "security.protocol=SASL_SSL",
          "-X", "sasl.oauthbearer.token.endpoint.url=http://[x/"], "token.endpoint.url is not a valid URL", None),
        (["list", "-X", "sasl.mechanism=OAUTHBEARER", "-X", "security.protocol=SASL_SSL",
          "-X", "sasl.oauthbearer.token.endpoint.url=http://x:" + "9" * 5_000], "token.endpoint.url is not a valid URL", None),
        (["remove-members", "g", "-i", "{a,b}" * 8_000, "--dry-run"], "more than 64 lists", None),
    ],
)  # fmt: skip
def test_a_slip_is_a_usage_error(words, message, hint, capsys, monkeypatch):
    monkeypatch.delenv("KGM_BOOTSTRAP_SERVER", raising=False)
    at = [] if words[0] in ("history", "serve") or "-b" in words else ["-b", "127.0.0.1:1"]
    assert run([*words, *at]) == 2
    out, err = capsys.readouterr()
    (error,) = [line for line in err.splitlines() if line.startswith("error: ")]
    assert out == ""
    assert message in error
    assert "s3cret" not in err
    assert hint is None or f"hint: {hint}" in err


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["describ"], "No such command 'describ'", "did you mean describe?"),
        (["config", "tst"], "No such command 'tst'", "did you mean test?"),
        (["zzzzz"], "No such command 'zzzzz'", "kgm help"),
        (["describe", "--al"], "No such option '--al'", "did you mean --all-groups?"),
        (["describe", "--only-laging"], "No such option '--only-laging'", "did you mean --only-lagging?"),
        (["wait", "g", "--timeout"], "Option '--timeout' requires an argument", "kgm help wait"),
        (["list", "x"], "Got unexpected extra argument (x)", "kgm help list"),
        (["remove-members", "g", "a"], "Got unexpected extra argument (a)",
         "name members by an option: kgm remove-members GROUP --instance-ids ID"),
    ],
)  # fmt: skip
def test_all_errors_look_the_same(words, message, hint, capsys):
    assert run(words) == 2
    assert capsys.readouterr() == ("", f"error: {message}\nhint: {hint}\n")


@pytest.mark.parametrize(
    "words",
    [
        ["describe", ""], ["describe", "a", " "], ["describe", "-g", ""], ["describe", "--match", ""],
        ["remove-members", "", "-i", "a", "--yes"], ["simulate-bounce", "", "--all"], ["plan", ""], ["rollout", "", "--all", "--exec", "true"],
        ["scale-in", "", "--to", "1"], ["watch", ""], ["wait", ""],
        ["doctor", ""], ["doctor", "--match", ""], ["drain", "--match-members", ""], ["drain", "--client-id", ""], ["drain", "--rack", ""], ["list", "--match", ""], ["diff", "live:", "live:"],
        ["config", "test", "-g", ""], ["audit", "-g", ""], ["history", "explain", ""], ["history", "churn", "--match", ""],
        ["history", "rebalances", ""], ["history", "timeline", "-g", ""],
    ],
    ids=" ".join,
)  # fmt: skip
def test_an_unset_variable_names_no_group(words, capsys):
    more = ["--source", LOGS] if words[0] == "history" else [] if words[0] == "audit" else ["-b", "127.0.0.1:1"]
    more += ["--for", "stable"] if words[0] == "wait" else []
    assert run([*words, *more]) == 2
    _, err = capsys.readouterr()
    assert len([line for line in err.splitlines() if line.startswith("error: ")]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("more", [["--dry-run"], ["--yes"]])
def test_a_group_that_does_not_exist_is_no_missing_member(more, server, capsys):  # noqa: F811
    words = ["remove-members", "nobody-here", "-i", "a", "--ignore-missing", "--assume-stopped", "--no-audit", *more]
    assert run([*words, "-b", server.bootstrap]) == 3
    assert "group 'nobody-here' does not exist" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [["describe"], ["describe", "-o", "json"], ["doctor"], ["wait", "--for", "stable", "--must-exist"], ["watch"],
     ["remove-members", "-i", "a", "--dry-run"], ["simulate-bounce", "--all"]],
    ids=" ".join,
)  # fmt: skip
def test_a_group_that_was_meant_is_named(words, server, group, form, capsys):  # noqa: F811
    form("a")
    assert run([words[0], f"{group}x", *words[1:], "-b", server.bootstrap]) == 3
    assert f"did you mean '{group}'?" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "expected"),
    [(["remove-members", "--dry-run", "-i"], "did you mean 'orders-app-2'?"), (["simulate-bounce", "--instance-ids"], "did you mean orders-app-2?")],
)  # fmt: skip
def test_a_member_that_was_meant_is_named(command, expected, server, group, form, capsys):  # noqa: F811
    form("orders-app-1", "orders-app-2", "orders-app-10")
    assert run([command[0], group, *command[1:], "orders-ap-2", "-b", server.bootstrap]) == 3
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize("command", ["remove-members", "simulate-bounce", "plan", "rollout", "drain"])
def test_match_is_about_groups(command, capsys):
    """In commands about members it is an old name, which works and is not shown."""
    assert run([command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--match-members GLOB" in shown
    assert "--match " not in shown


@pytest.mark.slow
def test_names_with_numbers_sort_by_number(server, group, form, capsys):  # noqa: F811
    form("svc-10", "svc-2", "svc-1")
    expected = ["svc-1", "svc-2", "svc-10"]
    assert run(["describe", group, "-o", "name", "-b", server.bootstrap]) == 0
    assert capsys.readouterr().out.split() == expected
    assert run(["describe", group, "-b", server.bootstrap]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("svc-")] == expected
    words = ["rollout", group, "--all", "--exec", "true", "--dry-run", "-o", "json", "-b", server.bootstrap]
    assert run(words) == 0
    steps = json.loads(capsys.readouterr().out)["data"]["steps"]
    assert [step["members"] for step in steps] == [[name] for name in expected]


# -- hints -------------------------------------------------------------------------------------------------------------

NASTY = [
    "-rf",
    "--group",
    "a b",
    "$(touch x)",
    "`x`",
    "a'b",
    'a"b',
    "tab\there",
    "\x1b[2J",
    "é\u202e",
    "a;b",
    "*",
    "~",
    "a\nb",
]


@pytest.mark.parametrize("name", NASTY)
def test_a_command_can_be_pasted_whatever_a_group_is_called(name):
    line = group_command("describe", name, "--match", name)
    assert line.isprintable()
    done = subprocess.run(
        [needs("bash"), "-c", line.replace("kgm", "printf '%s\\0'", 1)], capture_output=True, check=True
    )
    command, first, option, value = done.stdout.decode().rstrip("\0").split("\0")
    assert (command, option, value) == ("describe", "--match", name)
    assert first.removeprefix("--group=") == name
    assert first.startswith("--group=") == name.startswith("-")


@pytest.mark.parametrize(
    "typed",
    [
        ["-b", "h:1"], ["-bh:1"], ["--bootstrap-server=h:1"], ["--bootstrap-servers", "h:1"], ["--profile", "a b"],
        ["--profile=prod", "-X", "client.id=x"], ["--command-config", "/etc/$x"],
    ],
)  # fmt: skip
def test_a_hint_names_the_cluster_as_it_was_typed(typed):
    invocation.remember(["describe", "g", *typed, "-o", "json"])
    assert invocation.with_cluster("kgm describe g") == f"kgm describe g {shell_line(typed)}"
    assert invocation.with_cluster("kgm config test -g g") == f"kgm config test -g g {shell_line(typed)}"
    assert invocation.with_cluster("kgm wait g, then x") == f"kgm wait {shell_line(typed)} g, then x"
    both = f"kgm wait {shell_line(typed)} g; to continue: kgm rollout {shell_line(typed)} --resume f"
    assert invocation.with_cluster("kgm wait g; to continue: kgm rollout --resume f") == both
    for other in (
        "kgm config test -b HOST:PORT shows it",
        "kgm audit",
        "try again",
        "kgm history churn --store x",
        "see kgm list",
    ):
        assert invocation.with_cluster(other) == other
    invocation.remember(["describe", "g"])
    assert invocation.with_cluster("kgm describe g") == "kgm describe g"


@pytest.mark.parametrize("typed", [[], ["--profile", "prod"]])
def test_a_hint_names_a_cluster_that_only_reads_take_from_the_environment(typed, monkeypatch):
    """Without it, a command that changes something has no bootstrap server."""
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "h:1")
    named = shell_line([*typed, "-b", "h:1"])
    invocation.remember(["plan", "g", *typed])
    RunOptions().bootstrap_for(reads_only=True)
    assert invocation.with_cluster("kgm remove-members g") == f"kgm remove-members g {named}"
    assert invocation.again_with("--assume-idle").endswith(" --assume-idle -b h:1")
    invocation.remember(["plan", "g", *typed])
    RunOptions(bootstrap="i:1").bootstrap_for(reads_only=True)  # of KGM_BOOTSTRAP_SERVER, which changes take too
    assert "h:1" not in invocation.with_cluster("kgm remove-members g")


@pytest.mark.parametrize("typed", [["--from-file", "-"], ["--from-file=-"]])
def test_a_command_to_paste_does_not_read_what_has_been_read(typed):
    invocation.remember(["remove-members", "g", *typed, "--yes"])
    assert invocation.again_with("-x", read=["-i", "a b"]) == "kgm remove-members g -i 'a b' --yes -x"
    invocation.remember(["remove-members", "g", "--from-file", "ids", "--yes"])
    assert invocation.again_with(read=["-i", "a"]) == "kgm remove-members g --from-file ids --yes"


@pytest.mark.parametrize("typed", [["--guard-window", "3s"], ["--guard-window=3s"], []])
def test_a_command_to_paste_states_an_option_once(typed):
    invocation.remember(["remove-members", "g", *typed, "--yes"])
    assert invocation.again_with("--guard-window", "12s") == "kgm remove-members g --yes --guard-window 12s"


@pytest.mark.slow
def test_the_command_that_a_refusal_prints_does_what_it_says(server, group, form, capsys):  # noqa: F811
    form("-a\x1b", "b")
    words = ["remove-members", group, "--match", "-a*", "--yes", "--no-audit", "--guard-window", "50ms"]
    assert run([*words, "-b", server.bootstrap]) == 6
    hint = next(line for line in capsys.readouterr().err.splitlines() if line.startswith("hint: "))
    command = re.search(r"has stopped: kgm (.*?)(, or watch longer|$)", hint)[1]
    assert run(shlex.split(command)) == 0
    assert "removed" in capsys.readouterr().out
