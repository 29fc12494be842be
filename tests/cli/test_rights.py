"""Each command against a real Kafka with StandardAuthorizer: without a right, with DESCRIBE only, with the one it needs.

And the canary: no password is in anything that any command prints, whatever goes wrong."""

from __future__ import annotations

import importlib
import inspect
import itertools
import json

import pytest
import typer

from kgm.cli.main import COMMANDS, run
from tests.cli.runner import kgm
from tests.kafka.certificates import KEY_PASSWORD, STORE_PASSWORD
from tests.kafka.secured import CANARY, TOPIC, jaas

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

GROUP = "rights"
#: Commands that ask a cluster, with what they need besides.
CLUSTER_COMMANDS = {
    "list": ["list"],
    "describe": ["describe", GROUP],
    "remove-members": ["remove-members", GROUP, "--instance-ids", "a", "--yes", "--guard-window", "100ms"],
    "simulate-bounce": ["simulate-bounce", GROUP, "--all"],
    "watch": ["watch", GROUP, "--count", "1"],
    "wait": ["wait", GROUP, "--for", "members=1"],
    "doctor": ["doctor", GROUP, "--window", "0s", "--fail-on", "never"],
    "doctor": ["doctor", GROUP, "--window", "0s"],
    "diff": ["diff", f"live:{GROUP}", f"live:{GROUP}"],
    "watch": ["watch", GROUP, "--count", "1"],
    "wait": ["wait", GROUP, "--for", "members>=0"],
    "diff": ["diff", f"live:{GROUP}", f"live:{GROUP}"],
    "config view": ["config", "view", "--show-origin"],
    "config test": ["config", "test", "-g", GROUP],
}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def kafka(secured):
    """`viewer` has DESCRIBE on a group, `operator` what every command needs, `nobody` nothing."""
    secured.seat(GROUP, "a")
    secured.seat("rights-unseen", "a")
    secured.allow("viewer", "DESCRIBE", group=GROUP)
    secured.allow("operator", "READ", group=GROUP)
    secured.allow("operator", "DESCRIBE")
    secured.allow("operator", "DESCRIBE", topic=TOPIC)
    return secured


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write settings to a client.properties of mode 600."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))

    def write(settings):
        path = tmp_path / f"client-{next(_numbers)}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        path.chmod(0o600)
        return str(path)

    return write


@pytest.fixture
def as_user(kafka, write, capsys):
    """Run a command as a user: (exit code, JSON document, stderr)."""

    def as_user(user, *arguments):
        code = run(
            [*arguments, "-o", "json", "--timeout", "60s", "--command-config", write(kafka.settings("SASL_SSL", user))]
        )
        captured = capsys.readouterr()
        assert CANARY not in captured.out + captured.err
        return code, json.loads(captured.out), captured.err

    return as_user


def test_list(as_user):
    code, document, err = as_user("nobody", "list")
    assert (code, document["data"]["groups"]) == (0, [])
    assert "no group is visible to us: without DESCRIBE on Cluster 'kafka-cluster'" in err
    code, document, err = as_user("viewer", "list")
    seen = {row["group_id"] for row in document["data"]["groups"]}
    assert (code, err) == (0, "")
    assert GROUP in seen
    assert "rights-unseen" not in seen  # Kafka leaves it out and says nothing
    code, document, err = as_user("operator", "list")
    assert (code, err) == (0, "")
    assert {GROUP, "rights-unseen"} <= {row["group_id"] for row in document["data"]["groups"]}


def test_describe(as_user):
    code, document, err = as_user("nobody", "describe", GROUP)
    assert code == 4
    assert f"the principal needs DESCRIBE on Group '{GROUP}'" in err
    assert f"--operation Describe --group '{GROUP}'" in err
    assert document["errors"][0]["code"] == "GROUP_AUTHORIZATION_FAILED"
    code, document, err = as_user("nobody", "describe", "--all-groups")
    assert (code, document["data"]["groups"]) == (0, [])
    assert "no group is visible to us" in err
    code, document, err = as_user("viewer", "describe", GROUP)
    (member,) = document["data"]["groups"][0]["members"]
    assert (code, member["group_instance_id"], member["lag"]) == (0, "a", None)
    assert f"no DESCRIBE on Topic '{TOPIC}'" in err
    code, document, err = as_user("operator", "describe", GROUP)
    assert (code, document["data"]["groups"][0]["topics"], err) == (0, [{"name": TOPIC, "partitions": 6}], "")


def test_simulate_bounce(as_user):
    code, document, err = as_user("nobody", "simulate-bounce", GROUP, "--all")
    assert code == 4
    assert f"the principal needs DESCRIBE on Group '{GROUP}'" in err
    for user in ("viewer", "operator"):
        code, document, err = as_user(user, "simulate-bounce", GROUP, "--all")
        assert (code, document["data"]["group_id"]) == (0, GROUP)
        assert ("no DESCRIBE on Topic" in err) == (user == "viewer")


def test_remove_members(as_user, kafka):
    """LeaveGroup takes READ on the group, the right of every consumer."""
    group = "rights-removal"
    kafka.seat(group, "a")
    kafka.allow("viewer", "DESCRIBE", group=group)
    kafka.allow("operator", "READ", group=group)
    remove = ["remove-members", group, "--instance-ids", "a", "--yes", "--guard-window", "100ms"]
    code, document, err = as_user("nobody", *remove)
    assert code == 4
    assert f"the principal needs DESCRIBE on Group '{group}'" in err
    code, document, err = as_user("viewer", *remove)
    assert code == 4
    assert f"the principal needs READ on Group '{group}'" in err
    assert f"--operation Read --group '{group}'" in err
    code, document, err = as_user("viewer", *remove[:-3], "--dry-run")
    assert (code, document["data"]["results"][0]["result"]) == (0, "planned")
    code, document, err = as_user("operator", *remove)
    assert (code, document["data"]["results"][0]["result"]) == (0, "removed")


def test_config_test(as_user):
    def asked(user, *arguments):
        code, document, err = as_user(user, "config", "test", *arguments)
        checks = document["data"]["checks"]
        assert [check["step"] for check in checks[:6]] == ["name", "connect", "tls", "versions", "sasl", "broker"]
        assert {check["result"] for check in checks[:6]} == {"ok"}
        assert checks[2]["detail"].startswith("TLSv1.3")
        return code, [(check["where"].partition(" ")[0], check["result"]) for check in checks[6:]], err

    code, checks, err = asked("nobody")
    assert (code, checks) == (4, [("Cluster", "failed")])
    assert "the principal needs DESCRIBE on Cluster 'kafka-cluster', or on the groups" in err
    code, checks, err = asked("nobody", "-g", GROUP)
    assert (code, checks) == (4, [("Cluster", "limited"), ("Group", "failed")])
    assert f"the principal needs DESCRIBE on Group '{GROUP}'" in err
    assert asked("viewer", "-g", GROUP) == (0, [("Cluster", "limited"), ("Group", "limited")], "")
    assert asked("operator", "-g", GROUP) == (0, [("Cluster", "ok"), ("Group", "ok")], "")


@pytest.mark.parametrize(
    ("listener", "wrong", "step", "code"),
    [
        ("SASL_SSL", {"bootstrap.servers": "no-such-host.invalid:1"}, "name", 5),
        ("SASL_SSL", {"bootstrap.servers": "127.0.0.1:1"}, "connect", 5),
        ("SASL_SSL", {"ssl.truststore.location": "stranger"}, "tls", 4),
        ("SSL", {"security.protocol": "PLAINTEXT"}, "versions", 5),
        ("SASL_SSL", {"sasl.jaas.config": jaas("SCRAM-SHA-512", "operator", "x")}, "sasl", 4),
        ("SASL_SSL", {"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas("PLAIN", "operator", "x")}, "sasl", 4),
    ],
)
def test_config_test_names_the_step_that_failed(kafka, write, capsys, listener, wrong, step, code):
    if "ssl.truststore.location" in wrong:
        wrong = {"ssl.truststore.location": str(kafka.certificates.other_ca_file)}
    assert run(["config", "test", "-o", "json", "--command-config", write(kafka.settings(listener) | wrong)]) == code
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert [(check["step"], check["result"]) for check in document["data"]["checks"]][-1] == (step, "failed")
    assert captured.err.startswith("error: ")
    assert "hint: " in captured.err


def test_the_wrong_cluster_is_refused(kafka, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "xdg/kgm"
    folder.mkdir(parents=True)
    lines = [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in kafka.settings("SASL_SSL").items()]
    (folder / "config.toml").write_text("\n".join(["[profiles.p]", 'expect_cluster_id = "another"', *lines]))
    (folder / "config.toml").chmod(0o600)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    for name in ("list", "describe", "remove-members", "simulate-bounce", "config test"):
        assert run([*CLUSTER_COMMANDS[name], "--profile", "p"]) == 6
        captured = capsys.readouterr()
        assert "not another: nothing was done" in captured.err
        assert CANARY not in captured.out + captured.err
    text = (folder / "config.toml").read_text().replace("another", kafka._cluster_id)
    (folder / "config.toml").write_text(text)
    assert run(["list", "--profile", "p"]) == 0


# -- the canary --------------------------------------------------------------------------------------------------------


def cluster_commands():
    """Names of all commands that take a --command-config."""
    found = set()
    for name, (module, function, _) in COMMANDS.items():
        bound = getattr(importlib.import_module(f"kgm.cli.{module}"), function)
        leaves = {name: bound}
        if isinstance(bound, typer.Typer):
            leaves = {f"{name} {one.name}": one.callback for one in bound.registered_commands}
        found |= {leaf for leaf, call in leaves.items() if "command_config" in inspect.signature(call).parameters}
    return found


def test_every_cluster_command_is_searched():
    assert cluster_commands() == set(CLUSTER_COMMANDS)


def misfortunes(kafka):
    """Settings full of secrets, right and wrong in every way."""
    certificates = kafka.certificates
    good = kafka.settings("SASL_SSL", "operator")
    key = {"ssl.keystore.certificate.chain": certificates.client.chain.replace("\n", "\\n"),
           "ssl.keystore.key": certificates.client.encrypted_key.replace("\n", "\\n"), "ssl.key.password": KEY_PASSWORD}  # fmt: skip
    wrong = {"sasl.jaas.config": jaas("SCRAM-SHA-512", "operator", f"not-{CANARY}")}
    return {
        "all is well": good,
        "a wrong password": good | wrong,
        "a wrong password for PLAIN": good | {"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas("PLAIN", "operator", f"x{CANARY}")},
        "jaas without an end": good | {"sasl.jaas.config": good["sasl.jaas.config"].rstrip(";")},
        "jaas with an open quote": good | {"sasl.jaas.config": good["sasl.jaas.config"].rstrip('";')},
        "jaas of another module": good | {"sasl.mechanism": "PLAIN"},
        "a password that is no jaas": good | {"sasl.jaas.config": CANARY},
        "a store password": good | {"ssl.truststore.location": str(certificates.ca_p12_file), "ssl.truststore.password": f"x{CANARY}"},
        "a key password": good | key | {"ssl.key.password": f"x{CANARY}"},
        "mtls": kafka.settings("MTLS") | key,
        "the wrong port": good | {"bootstrap.servers": kafka.bootstrap_of("PLAINTEXT")},
        "unknown keys": good | {"sasl.pasword": CANARY, "my.secret": CANARY},
        "a password in plaintext": kafka.settings("SASL_PLAINTEXT", "operator", "PLAIN") | {"kgm.allow.plaintext.password": "no"},
        "an idle login": {"bootstrap.servers": kafka.bootstrap_of("PLAINTEXT"), "sasl.password": CANARY, "sasl.username": "u"},
        "a client secret": good | {
            "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/",
            "sasl.jaas.config": f'x.OAuthBearerLoginModule required clientId="i" clientSecret="{CANARY}";',
        },
    }  # fmt: skip


def test_no_secret_is_in_anything_that_any_command_prints(kafka, write, capfd):
    for name, settings in misfortunes(kafka).items():
        path = write(settings)
        for command, arguments in CLUSTER_COMMANDS.items():
            if command == "remove-members":
                arguments = [*arguments, "--dry-run"]  # noqa: PLW2901
            for form in ("table", "json"):
                try:
                    run([*arguments, "--command-config", path, "-o", form, "--timeout", "60s"])
                except Exception as error:  # noqa: BLE001
                    pytest.fail(f"{command}, {name}: {type(error).__name__}")
                captured = capfd.readouterr()
                assert captured.out + captured.err, (command, name)
                assert CANARY not in captured.out + captured.err, (command, name)
            if command in ("list", "config test"):
                with_traceback(arguments, path, capfd)


def with_traceback(arguments, path, capfd):
    """--debug lets the error out; what Python prints of it holds no secret either."""
    import traceback

    text = ""
    try:
        run([*arguments, "--command-config", path, "--debug"])
    except Exception:  # noqa: BLE001
        text = traceback.format_exc()
    captured = capfd.readouterr()
    assert CANARY not in text + captured.out + captured.err


def test_no_secret_of_the_environment_is_printed_either(kafka, write):
    settings = {
        key: value for key, value in kafka.settings("SASL_SSL", "operator").items() if key != "sasl.jaas.config"
    }
    env = {"KGM_SASL_USERNAME": "operator", "KGM_SASL_PASSWORD": f"not-{CANARY}", "KGM_DEBUG": "1"}
    for arguments in (["list"], ["config", "test"], ["config", "view"]):
        done = kgm(*arguments, "--debug", "--command-config", write(settings), env=env)
        assert CANARY not in done.out + done.err
        assert (STORE_PASSWORD in done.out + done.err) is False
    good = kgm("list", "--command-config", write(settings), env=env | {"KGM_SASL_PASSWORD": f"operator-{CANARY}"})
    assert good.code == 0, good.err


def test_a_secret_on_the_command_line_is_refused_and_not_repeated(kafka):
    done = kgm("list", "-b", kafka.bootstrap_of("SASL_SSL"), "-X", f"sasl.password={CANARY}", "--debug")
    assert done.code in (1, 2)
    assert "a secret on the command line" in done.err
    assert CANARY not in done.out + done.err.replace(f"sasl.password={CANARY}", "argv")
