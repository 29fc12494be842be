"""`kgm doctor` with --check, and with findings that config.toml says to ignore."""

from __future__ import annotations

import ast
import json

import pytest

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.operations.doctor.check_names import CHECK_NAMES
from kgm.operations.doctor.history_findings import ALARM_CHECKS
from kgm.protocol.apis import ApiKey
from kgm.server import serve_in_thread
from tests import ROOT
from tests.cli.runner import kgm
from tests.client.faults import Edit, FaultProxy
from tests.client.joiners import form_group

#: What is found in `ill`, a group with a random instance id, a dynamic member and a partition without a consumer.
FOUND = {"classic-protocol", "mixed-membership", "random-instance-id", "unowned-partitions"}


@pytest.fixture(scope="module")
def server():
    settings = BrokerSettings(group_initial_rebalance_delay_ms=0)
    with serve_in_thread(topics={"orders": 3}, settings=settings) as running:
        joiners = form_group(running, "ill", ["app-7d9f8b6c5d-x2x9z", None], "orders")
        yield running
        for joiner in joiners:
            joiner.close()


@pytest.fixture
def config(tmp_path):
    (tmp_path / "kgm").mkdir()

    def config(text):
        (tmp_path / "kgm" / "config.toml").write_text(text)
        return {"XDG_CONFIG_HOME": str(tmp_path)}

    return config


def doctor(server, *words, env=None):
    """(exit code, checks that were found, data)."""
    run = kgm("doctor", "ill", "--window", "0s", "-b", server.bootstrap, "-o", "json", *words, env=env)
    data = json.loads(run.out)["data"]
    return run.code, {one["check"] for one in data["findings"]}, data


def test_without_a_selection_there_is_more_to_report(server):
    assert doctor(server)[:2] == (8, FOUND)


@pytest.mark.parametrize(
    "words",
    [["--check", "mixed-membership", "--check", "odd-state"], ["--check", "mixed-membership,odd-state"]],
)
def test_only_the_checks_that_were_asked_for(server, words):
    code, found, data = doctor(server, *words)
    assert (code, found) == (8, {"mixed-membership"})
    assert data["groups"] == ["ill"]
    assert data["skipped"] == []  # stalled-owner needs a window, and was not asked for
    assert doctor(server, "--check", "odd-state")[:2] == (0, set())
    assert doctor(server, "--check", "classic-protocol", "--fail-on", "info")[0] == 8


def test_a_check_that_was_not_run_is_told(server):
    with FaultProxy((server.host, server.port)) as proxy:
        proxy.always(ApiKey.FETCH, Edit(_deny_fetch))
        _, _, data = doctor(proxy, "--check", "session-too-short,mixed-membership")
    assert [one["checks"] for one in data["skipped"]] == ["session-too-short"]


def _deny_fetch(message):
    for topic in message.responses:
        for partition in topic.partitions:
            partition.error_code = 29


def test_a_coordinator_that_does_not_answer_is_reported_whatever_was_asked_for(server):
    def fail(message):
        for group in message.groups:
            group.error_code, group.members = -1, []

    with FaultProxy((server.host, server.port)) as proxy:
        proxy.always(ApiKey.DESCRIBE_GROUPS, Edit(fail))
        code, found, _ = doctor(proxy, "--check", "odd-state", "--timeout", "5s")
    assert (code, found) == (8, {"coordinator-unavailable"})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--check", "mixed-member"], "error: --check: there is no check 'mixed-member'\nhint: did you mean mixed-membership?"),
        (["--check", "odd-state,zzz"], "error: --check: there is no check 'zzz'\nhint: known: away-members, "),
        (["--check", " "], "error: --check: the name of the check is empty"),
    ],
)  # fmt: skip
def test_names_that_are_no_check(words, message):
    run = kgm("doctor", *words, "-b", "127.0.0.1:1")
    assert run.code == 2
    assert message in run.err


def test_every_check_has_its_name_in_the_list():
    """A check names itself where it makes its finding."""
    named = set()
    for path in (ROOT / "kgm/operations/doctor").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "finding":
                named |= {one.value for one in node.args[:1] if isinstance(one, ast.Constant)}
    assert named | {"coordinator-unavailable", *ALARM_CHECKS} == set(CHECK_NAMES)
    assert len(CHECK_NAMES) == len(set(CHECK_NAMES))


IGNORED = """
[profiles.prod]

[[profiles.prod.ignore]]
check = "mixed-membership"
group = "il*"
reason = "they migrate in spring"

[[profiles.prod.ignore]]
check = "random-instance-id"
group = "another"
reason = "not this group"

[[ignore]]
check = "unowned-partitions"
reason = "the third consumer comes in May"
"""


def test_accepted_findings_are_counted_apart_and_are_no_failure(server, config):
    env = config(IGNORED)
    code, found, data = doctor(server, "--profile", "prod", env=env)
    assert (code, found) == (8, {"classic-protocol", "random-instance-id"})
    assert [(one["group_id"], one["check"], one["severity"], one["reason"]) for one in data["ignored"]] == [
        ("ill", "unowned-partitions", "error", "the third consumer comes in May"),
        ("ill", "mixed-membership", "warning", "they migrate in spring"),
    ]
    # Without the profile, only what is for all clusters.
    assert doctor(server, env=env)[1] == FOUND - {"unowned-partitions"}
    assert doctor(server, "--profile", "prod", "--check", "mixed-membership", env=env)[:2] == (0, set())
    code, found, data = doctor(server, "--profile", "prod", "--no-ignore", env=env)
    assert (code, found, data["ignored"]) == (8, FOUND, [])


def test_people_read_what_is_ignored_and_why(server, config):
    run = kgm(
        "doctor", "ill", "--window", "0s", "-b", server.bootstrap, "--profile", "prod", env=config(IGNORED)
    )  # fmt: skip
    assert "ignored: mixed-membership in ill: they migrate in spring\n" in run.out
    assert "1 group examined: 1 warning, 1 info\n" in run.out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[ignore]]\ncheck = "odd-stat"\nreason = "x"\n', "[[ignore]] 1: there is no check 'odd-stat'\nhint: did you mean odd-state?"),
        ('[[ignore]]\ncheck = "odd-state"\n', "[[ignore]] 1: reason is missing"),
        ('[[ignore]]\nreason = "x"\n', "[[ignore]] 1: check is missing"),
        ('[[ignore]]\ncheck = "odd-state"\nreason = " "\n', "[[ignore]] 1: reason is not a text"),
        ('[[ignore]]\ncheck = "odd-state"\nreason = "x"\ngroups = "y"\n', "[[ignore]] 1: there is no setting groups"),
        ('[[ignore]]\ncheck = 7\nreason = "x"\n', "[[ignore]] 1: check is not a text"),
        ('[ignore]\ncheck = "odd-state"\n', "[[ignore]]: not a list of tables"),
        ('[profiles.prod]\nignore = ["odd-state"]\n', "[[profiles.prod.ignore]]: not a list of tables"),
    ],
)  # fmt: skip
def test_tables_that_are_not_valid(config, text, message):
    env = config(text if "profiles" in text else f"{text}[profiles.prod]\n")
    run = kgm("doctor", "-b", "127.0.0.1:1", "--profile", "prod", env=env)
    assert run.code == 2, run.err
    assert message in run.err


def test_other_commands_do_not_mind(config):
    run = kgm("config", "view", "--profile", "prod", "-o", "json", env=config(IGNORED))
    assert run.code == 0, run.err
    assert json.loads(run.out)["data"]["profile"] == "prod"
