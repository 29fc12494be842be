"""A canary: a secret in every place where one can be given is searched for in all traces of every command: its output,
tracebacks and files, the argument lists of its processes, and what they write to anything but the broker's socket.
Commands are enumerated, so that a new one that is not covered fails here."""

from __future__ import annotations

import functools
import importlib
import inspect
import itertools
import json
import os
import re
import subprocess
import sys

import pytest
import typer

from kgm.cli.main import COMMANDS, run
from tests import ROOT
from tests.cli.runner import kgm
from tests.cli.test_rights import CLUSTER_COMMANDS
from tests.kafka.certificates import KEY_PASSWORD, STORE_PASSWORD
from tests.kafka.secured import CANARY, TOPIC, jaas
from tests.needs import missing, needs

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

GROUP = "rights"
assert CANARY in KEY_PASSWORD
assert CANARY in STORE_PASSWORD
#: Most history queries read the live topic; capture is refused before it starts Spark.
HISTORY = {
    f"history {name}": ["history", name, "--source", "kafka", *more]
    for name, more in {
        "rebalances": [], "explain": [GROUP], "timeline": [GROUP], "movement": [GROUP], "offsets": [GROUP],
        "churn": [], "zombies": [], "timeouts": [], "simulate-fleet": ["--scenario", "rolling"], "capture": ["--once"], "build": [],
        "decode": [], "verify": [],
    }.items()
}  # fmt: skip
#: They take no cluster settings, but the environment has them.
OTHERS = {
    "config list": ["config", "list"],
    "assign": ["assign", "--from-file", os.devnull],
    "serve": ["serve", "--topic", "nonsense"],
    "audit": ["audit"],
    "demo": ["demo", "-o", "nonsense"],
    "completion": ["completion", "bash"],
    "version": ["version"],
    "help": ["help", "--man"],
}
_numbers = itertools.count()


@functools.cache
def leaves():
    """{name of a command: what it takes}."""
    found = {}
    for name, (module, function, _) in COMMANDS.items():
        bound = getattr(importlib.import_module(f"kgm.cli.commands.{module}"), function)
        calls = {name: bound}
        if isinstance(bound, typer.Typer):
            calls = {f"{name} {one.name}": one.callback for one in bound.registered_commands}
        found |= {leaf: set(inspect.signature(call).parameters) for leaf, call in calls.items()}
    return found


@functools.cache
def searched():
    """{name: arguments} of every command; removals are dry, because others use the group too."""
    found = {name: arguments for name, arguments in (CLUSTER_COMMANDS | HISTORY | OTHERS).items() if name in leaves()}
    for name in ("remove-members", "delete-groups"):
        found[name] = [*found[name], "--dry-run"]
    return found


def test_every_command_is_covered():
    assert set(leaves()) == set(searched())
    ours = {name for name, parameters in leaves().items() if "command_config" in parameters}
    assert {name for name in ours if not name.startswith("history ")} == set(CLUSTER_COMMANDS)


@pytest.fixture(scope="module")
def kafka(secured):
    secured.add_absent_member(GROUP, "a")
    secured.allow("operator", "READ", group=GROUP)
    secured.allow("operator", "DESCRIBE")
    secured.allow("operator", "DESCRIBE", topic=TOPIC)
    secured.allow("mtls-user", "READ", group=GROUP)
    return secured


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Empty folders for everything that kgm may write."""
    for name in ("STATE", "CACHE", "CONFIG", "DATA", "RUNTIME"):
        folder = tmp_path / "home" / name.lower()
        folder.mkdir(parents=True)
        monkeypatch.setenv(f"XDG_{name}_{'DIR' if name == 'RUNTIME' else 'HOME'}", str(folder))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def write(tmp_path):
    """Write settings to a client.properties of mode 600."""

    def write(settings):
        path = tmp_path / f"client-{next(_numbers)}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        path.chmod(0o600)
        return str(path)

    return write


def files_with_the_canary(home):
    return [path for path in home.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]


def token_command(folder, text):
    """A program that prints a token, and stores what every user can read of its parent processes."""
    script = folder / "token.sh"
    script.write_text(f"""#!/bin/sh
cat /proc/$$/cmdline /proc/$PPID/cmdline >> {folder}/cmdlines
echo >> {folder}/cmdlines
cat {folder}/token
""")
    script.chmod(0o700)
    (folder / "token").write_text(text)
    return str(script)


def places(kafka, folder):
    """{where secrets are and what is wrong with them: settings}."""
    certificates = kafka.certificates
    good = kafka.settings("SASL_SSL", "operator")
    key = {"ssl.keystore.certificate.chain": certificates.client.chain.replace("\n", "\\n"),
           "ssl.keystore.key": certificates.client.encrypted_key.replace("\n", "\\n"), "ssl.key.password": KEY_PASSWORD}  # fmt: skip
    oauth = {key: value for key, value in good.items() if not key.startswith("sasl.")} | {
        "sasl.mechanism": "OAUTHBEARER"
    }
    wrong = {"sasl.jaas.config": jaas("SCRAM-SHA-512", "operator", f"not-{CANARY}")}
    plain = {key: value for key, value in good.items() if key != "sasl.jaas.config"}
    secrets = folder / "secrets.properties"
    secrets.write_text(f"password={jaas('SCRAM-SHA-512', 'operator', 'operator-' + CANARY)}\nwrong={CANARY}\n")
    secrets.chmod(0o600)
    provider = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    token_file = folder / "token-file"
    token_file.write_text(f"eyJ.{CANARY}.x")
    return {
        "all is well": good,
        "a wrong password": good | wrong,
        "a wrong password for PLAIN": good | {"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas("PLAIN", "operator", f"x{CANARY}")},
        "librdkafka's names": plain | {"sasl.username": "operator", "sasl.password": f"operator-{CANARY}"},
        "jaas without an end": good | {"sasl.jaas.config": good["sasl.jaas.config"].rstrip(";")},
        "jaas with an open quote": good | {"sasl.jaas.config": good["sasl.jaas.config"].rstrip('";')},
        "jaas of another module": good | {"sasl.mechanism": "PLAIN"},
        "a password that is no jaas": good | {"sasl.jaas.config": CANARY},
        "a trust store's password": good | {"ssl.truststore.type": "PKCS12", "ssl.truststore.location": str(certificates.ca_p12_file), "ssl.truststore.password": STORE_PASSWORD},
        "a wrong store password": good | {"ssl.truststore.location": str(certificates.ca_p12_file), "ssl.truststore.password": f"x{CANARY}"},
        "a key store's password": kafka.settings("MTLS") | {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": str(certificates.client.p12_file), "ssl.keystore.password": STORE_PASSWORD},
        "a key password": good | key | {"ssl.key.password": f"x{CANARY}"},
        "mtls": kafka.settings("MTLS") | key,
        "the wrong port": good | {"bootstrap.servers": kafka.bootstrap_of("PLAINTEXT")},
        "unknown keys": good | {"sasl.pasword": CANARY, "my.secret": CANARY},
        "a password in plaintext": kafka.settings("SASL_PLAINTEXT", "operator", "PLAIN") | {"kgm.allow.plaintext.password": "no"},
        "an idle login": {"bootstrap.servers": kafka.bootstrap_of("PLAINTEXT"), "sasl.password": CANARY, "sasl.username": "u"},
        "a client secret": oauth | {
            "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/",
            "sasl.jaas.config": f'x.OAuthBearerLoginModule required clientId="i" clientSecret="{CANARY}";',
        },
        "a client secret of its own, and one in the address": oauth | {
            "sasl.oauthbearer.token.endpoint.url": f"http://u:{CANARY}@127.0.0.1:1/?client_secret={CANARY}",
            "sasl.oauthbearer.client.id": "i", "sasl.oauthbearer.client.secret": CANARY,
        },
        "a token": oauth | {"kgm.oauthbearer.token.command": token_command(folder, f"eyJ.{CANARY}.x")},
        "arguments of the token command": oauth | {"kgm.oauthbearer.token.command": f"/no/such/program --secret {CANARY}"},
        "a token in a file": oauth | {"sasl.oauthbearer.token.endpoint.url": f"file://{token_file}"},
        "a config provider": plain | provider | {"sasl.jaas.config": f"${{file:{secrets}:password}}"},
        "a config provider, wrong": plain | provider | {"sasl.jaas.config": f"${{file:{secrets}:wrong}}"},
    }  # fmt: skip


#: The names of `places`.
PLACES = (
    "all is well", "a wrong password", "a wrong password for PLAIN", "librdkafka's names", "jaas without an end",
    "jaas with an open quote", "jaas of another module", "a password that is no jaas", "a trust store's password",
    "a wrong store password", "a key store's password", "a key password", "mtls", "the wrong port", "unknown keys",
    "a password in plaintext", "an idle login", "a client secret",
    "a client secret of its own, and one in the address", "a token", "arguments of the token command",
    "a token in a file", "a config provider", "a config provider, wrong",
)  # fmt: skip
#: Every command runs with these; with all others, those that show settings, log in, and change something.
ALL = ("all is well", "a wrong password", "a token", "unknown keys")
SOME = ("list", "config view", "config test", "remove-members")


def test_every_place_is_searched(kafka, tmp_path):
    assert tuple(places(kafka, tmp_path)) == PLACES


@pytest.mark.few(3)
@pytest.mark.parametrize("place", PLACES)
def test_no_secret_of_a_file_is_printed_or_stored(kafka, write, home, tmp_path, capfd, place):
    path = write(places(kafka, tmp_path)[place])
    for command, arguments in searched().items():
        if "command_config" not in leaves()[command] or (place not in ALL and command not in SOME):
            continue
        for more in (["-o", "json"], ["--debug"]) if command in SOME else (["--debug"],):
            run([*arguments, "--command-config", path, "--timeout", "60s", *more])
            captured = capfd.readouterr()
            assert captured.out + captured.err, command
            assert CANARY not in captured.out + captured.err, (command, more)
    assert files_with_the_canary(home) == []


def test_no_secret_of_a_profile_is_printed_or_stored(kafka, home, capfd):
    folder = home / "config" / "kgm"
    folder.mkdir()
    settings = kafka.settings("SASL_SSL", "operator") | {"sasl.pasword": CANARY}
    lines = [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in settings.items()]
    good = "\n".join(["[profiles.p]", *lines])
    for text in (good, good + f'\nbroken = "{CANARY}', good.replace("[profiles.p]", f'[profiles."{CANARY}"]')):
        (folder / "config.toml").write_text(text)
        (folder / "config.toml").chmod(0o600)
        for command in SOME:
            run([*searched()[command], "--profile", "p", "--debug"])
            captured = capfd.readouterr()
            shown = captured.out + captured.err
            # The name of a profile is not a secret, and is listed.
            assert CANARY not in shown.replace(f"profiles: {CANARY}", ""), (command, shown)
    (folder / "config.toml").unlink()
    assert files_with_the_canary(home) == []


@pytest.mark.long
def test_no_secret_of_the_environment_is_printed_or_stored(kafka, write, home, monkeypatch, capfd):
    settings = {k: v for k, v in kafka.settings("SASL_SSL", "operator").items() if k != "sasl.jaas.config"}
    path = write(settings)
    monkeypatch.setenv("KGM_SASL_USERNAME", "operator")
    monkeypatch.setenv("KGM_SSL_KEY_PASSWORD", CANARY)
    monkeypatch.setenv("KGM_SASL_PASWORD", CANARY)
    for password in (f"operator-{CANARY}", f"not-{CANARY}"):
        monkeypatch.setenv("KGM_SASL_PASSWORD", password)
        for command, arguments in searched().items():
            more = ["--command-config", path] if "command_config" in leaves()[command] else []
            code = run([*arguments, *more, "--debug"])
            captured = capfd.readouterr()
            assert CANARY not in captured.out + captured.err, command
            if command in ("list", "describe"):
                assert code == (0 if password.startswith("operator") else 4)
    monkeypatch.setenv("KGM_SASL_JAAS_CONFIG", f"no jaas {CANARY}")
    for command in SOME:
        run([*searched()[command], "--command-config", path, "--debug"])
        captured = capfd.readouterr()
        assert CANARY not in captured.out + captured.err, command
    assert files_with_the_canary(home) == []


def test_a_secret_on_the_command_line_is_refused_and_not_repeated(kafka):
    done = kgm("list", "-b", kafka.bootstrap_of("SASL_SSL"), "-X", f"sasl.password={CANARY}", "--debug")
    assert done.code == 2
    assert "a secret on the command line" in done.err
    assert CANARY not in done.out + done.err


def test_the_record_of_a_removal_has_no_secret(kafka, write, home, capfd):
    group = "secrets-removal"
    kafka.add_absent_member(group, "a")
    kafka.allow("operator", "READ", group=group)
    path = write(kafka.settings("SASL_SSL", "operator"))
    assert (
        run(
            [
                "remove-members",
                group,
                "-i",
                "a",
                "--yes",
                "--assume-stopped",
                "--guard-window",
                "100ms",
                "--command-config",
                path,
            ]
        )
        == 0
    )
    assert run(["audit", "-o", "json"]) == 0
    captured = capfd.readouterr()
    assert '"result": "removed"' in captured.out
    assert CANARY not in captured.out + captured.err
    assert (home / "state" / "kgm" / "audit.jsonl").stat().st_size > 100
    assert files_with_the_canary(home) == []


def test_no_process_has_a_secret_among_its_arguments(kafka, write, home, tmp_path):
    """Those of the token command and of kgm, its parent, as every user of this machine can read them."""
    path = write(places(kafka, tmp_path)["a token"])
    for arguments in (["list"], ["config", "test"]):
        assert kgm(*arguments, "--command-config", path, is_fork=False).code == 4
    lines = (tmp_path / "cmdlines").read_bytes()
    assert lines.count(b"token.sh") >= 2
    assert b"\0-m\0kgm\0" in lines
    assert CANARY.encode() not in lines


# -- what goes to the kernel -------------------------------------------------------------------------------------------

#: A call that writes: its descriptor with what it stands for, or a program with its arguments.
_CALL = re.compile(r"^(?:\d+ +)?(?:\[pid +\d+\] )?(\w+)\((?:\d+<([^>]*>?)[^,]*)?,?")


def tracer():
    """strace, where this user may use it."""
    strace = needs("strace")
    done = subprocess.run([strace, "-e", "trace=write", needs("true")], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        missing("strace", f"may not be used here: {done.stderr}")
    return strace


def test_a_secret_is_written_to_the_socket_only(kafka, write, home, tmp_path):
    """PLAIN over plaintext: the password goes to the broker as it is, and nowhere else."""
    strace = tracer()
    path = write(kafka.settings("SASL_PLAINTEXT", "operator", "PLAIN"))
    trace = tmp_path / "trace"
    calls = "execve,write,writev,pwrite64,pwritev,sendto,sendmsg,sendmmsg,memfd_create,mmap"
    chosen = [
        name
        for name in searched()
        if name in ("list", "describe", "remove-members", "doctor", "config test", "config view")
    ]
    sent = 0
    for command in chosen:
        trace.unlink(missing_ok=True)
        arguments = [*searched()[command], "--command-config", path, "--debug", "-o", "json"]
        subprocess.run(
            [strace, "-f", "-yy", "-qq", "-s", "1000000", "-e", f"trace={calls}", "-o", str(trace),
             sys.executable, "-m", "kgm", *arguments],
            capture_output=True, check=False, timeout=120, cwd=home, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        lines = [line for line in trace.read_text(errors="replace").splitlines() if CANARY in line]
        elsewhere = [line[:300] for line in lines if "<TCP:" not in line[:120]]
        assert elsewhere == [], command
        sent += len(lines)
    assert sent >= len(chosen) - 1, "the search would not have found it"
    assert files_with_the_canary(home) == []
