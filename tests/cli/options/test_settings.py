"""Which of several sources of an option wins, what is refused on the command line, and `kgm config view`."""

from __future__ import annotations

import json

import pytest

from kgm.cli.options.client_overrides import parse_overrides
from kgm.cli.options.run_options import RunOptions, run_options
from kgm.cli.output.redaction import HIDDEN, redacted_text
from kgm.model.errors import RefusedError, UsageError
from kgm.operations.settings.loading import Setting, load_settings
from tests.cli.runner import kgm
from tests.kafka.secured import CANARY, jaas

VALUES = {
    "output": "table", "no_headers": False, "color": "auto", "debug": False, "timeout": "30s", "bootstrap_server": None,
    "brokers": None, "command_config": None, "extra": None, "profile": None,
}  # fmt: skip


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty XDG_CONFIG_HOME and environment; `home("...")` writes config.toml."""
    for name in ("KGM_BOOTSTRAP_SERVER", "KGM_PROFILE", "KGM_EXPECT_CLUSTER_ID", "KAFKA_BOOTSTRAP_SERVERS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    folder = tmp_path / "xdg/kgm"
    folder.mkdir(parents=True)

    def write(text, mode=0o600, name="config.toml"):
        (folder / name).write_text(text)
        (folder / name).chmod(mode)
        return folder / name

    return write


PROFILE = """
[profiles.prod]
bootstrap-server = "profile:1"
expect_cluster_id = "the-cluster"
timeout = "7s"
output = "wide"
no_headers = true
security.protocol = "SSL"
ssl.truststore.location = "profile.pem"
"ssl.enabled.protocols" = ["TLSv1.2", "TLSv1.3"]
request.timeout.ms = 5
[profiles.other]
command_config = "other.properties"
"""


def test_the_order_is_flag_x_environment_command_config_profile_default(home, tmp_path, monkeypatch):
    home(PROFILE)
    config = tmp_path / "client.properties"
    key = "ssl.truststore.location"

    def found(**more):
        options = run_options(VALUES | more)
        return options.bootstrap, options.settings.get(key), options.origins["bootstrap_server"]

    assert found() == (None, None, "default")
    profile = {"profile": "prod"}
    assert found(**profile)[:2] == ("profile:1", "profile.pem")
    assert found(**profile)[2].startswith("profile prod (")
    config.write_text(f"bootstrap.servers=config:1\n{key}=config.pem\n")
    file = profile | {"command_config": str(config)}
    assert found(**file) == ("config:1", "config.pem", str(config))
    monkeypatch.setenv("KGM_SSL_TRUSTSTORE_LOCATION", "env.pem")
    monkeypatch.setenv("KGM_BOOTSTRAP_SERVER", "env:1")
    assert found(**file) == ("env:1", "env.pem", "environment (KGM_BOOTSTRAP_SERVER)")
    x = file | {"extra": [f"{key}=x.pem", "bootstrap.servers=x:1"]}
    assert found(**x) == ("x:1", "x.pem", "-X")
    assert found(**x, bootstrap_server="flag:1") == ("flag:1", "x.pem", "flag")
    assert run_options(VALUES | x).settings["security.protocol"] == "SSL"  # each key by itself


@pytest.mark.parametrize("name", ["bootstrap_server", "brokers", "profile"])
@pytest.mark.parametrize("value", ["", "  "])
def test_an_option_without_a_value_does_not_fall_through_to_another_source(home, monkeypatch, name, value):
    home('default_profile = "prod"' + PROFILE)
    monkeypatch.setenv("KGM_BOOTSTRAP_SERVER", "env:1")
    option = "--" + name.replace("_", "-")
    with pytest.raises(UsageError, match=f"^{option}: the value is empty$"):
        run_options(VALUES | {name: value})


def test_an_expected_cluster_without_an_id_is_an_error(home):
    home('[profiles.prod]\nexpect_cluster_id = ""')
    with pytest.raises(UsageError, match=r"expect_cluster_id .* is empty"):
        run_options(VALUES | {"profile": "prod"})


def test_what_a_profile_may_contain(home):
    home(PROFILE)
    options = run_options(VALUES | {"profile": "prod"})
    assert (options.timeout_ms, options.output, options.headers) == (7000, "wide", False)
    assert (options.profile, options.expect_cluster_id) == ("prod", "the-cluster")
    assert options.settings["ssl.enabled.protocols"] == "TLSv1.2,TLSv1.3"
    assert options.warnings == ()
    given = run_options(VALUES | {"profile": "prod", "timeout": "1s"}, {"timeout": "flag", "output": "environment"})
    assert (given.timeout_ms, given.output) == (1000, "table")


def test_a_command_config_of_a_profile_is_relative_to_it(home):
    home("default_profile = 'other'\n" + PROFILE)
    home("bootstrap.servers=beside:1", name="other.properties")
    assert run_options(VALUES).bootstrap == "beside:1"
    assert run_options(VALUES | {"profile": "prod"}).bootstrap == "profile:1"


@pytest.mark.parametrize(
    "key", ["sasl.password", "ssl.key.password", "sasl.jaas.config", "no.such.password", "sasl.pasword"]
)
def test_secrets_are_refused_on_the_command_line(home, key):
    with pytest.raises(UsageError, match=f"-X {key}: every process on this machine can read a secret") as caught:
        parse_overrides([f"{key}={CANARY}"])
    assert CANARY not in caught.value.message + (caught.value.hint or "")
    with pytest.raises(UsageError, match="write KEY=VALUE") as caught:
        parse_overrides([CANARY])
    assert CANARY not in caught.value.message + (caught.value.hint or "")


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("sasl.password", CANARY, HIDDEN), ("sasl.password", "", ""), ("sasl.username", "u", "u"),
        ("sasl.jaas.config", jaas("PLAIN", "u", CANARY), f'PlainLoginModule required username="u" password={HIDDEN};'),
        ("sasl.jaas.config", f"{CANARY}", HIDDEN),
        ("sasl.oauthbearer.token.endpoint.url", f"https://u:{CANARY}@h/x", f"https://{HIDDEN}@h/x"),
        ("sasl.pasword", CANARY, HIDDEN),
        ("kgm.oauthbearer.token.command", f"curl -u a:{CANARY} https://h", "curl ..."),
        ("kgm.oauthbearer.token.command", "/usr/bin/token", "/usr/bin/token"),
        ("ssl.truststore.certificates", "-----BEGIN A-----\n-----BEGIN B-----", "(PEM, 2 blocks)"),
        ("sasl.oauthbearer.token.endpoint.url", "https://h/x@y", "https://h/x@y"),
    ],
)  # fmt: skip
def test_what_is_shown(key, value, text):
    assert redacted_text(Setting(key=key, value=value, origin="")) == text


def test_options_do_not_show_secrets_in_their_repr():
    loaded = load_settings(environment={"KGM_SASL_PASSWORD": CANARY})
    assert CANARY not in repr(RunOptions(settings=loaded.client))


def test_another_cluster_than_the_one_expected_is_refused():
    options = RunOptions(expect_cluster_id="right", origins={"expect_cluster_id": "profile prod"})
    options.check_cluster("right")
    for other in ("wrong", None):
        with pytest.raises(RefusedError, match=f"this is cluster {other}, not right") as caught:
            options.check_cluster(other)
        assert caught.value.exit_code == 6
    RunOptions().check_cluster("any")


@pytest.mark.slow
def test_config_view_shows_origins_and_hides_secrets(home, tmp_path):
    home(PROFILE)
    config = tmp_path / "client.properties"
    config.write_text(f"sasl.jaas.config={jaas('PLAIN', 'alice', CANARY)}\nunknown.password={CANARY}\n")
    config.chmod(0o600)
    env = {"XDG_CONFIG_HOME": str(tmp_path / "xdg"), "KGM_SASL_PASSWORD": CANARY, "KGM_TIMEOUT": "9s"}
    arguments = ["config", "view", "--profile", "prod", "--command-config", str(config), "-X", "ssl.protocol=TLS"]
    run = kgm(*arguments, "--show-origin", env=env)
    assert run.code == 0, run.err
    lines = [line.split(maxsplit=1) for line in run.out.splitlines()]
    view = {line[0]: line[1] for line in lines}
    assert view["bootstrap_server"].startswith("profile:1  ")
    assert view["timeout"].split() == ["9s", "environment"]
    assert view["sasl.password"] == f"{HIDDEN}  environment (KGM_SASL_PASSWORD)".replace(
        HIDDEN, HIDDEN.ljust(len(view["sasl.password"].partition("  environment")[0]))
    )
    assert 'username="alice"' in view["sasl.jaas.config"]
    assert view["ssl.protocol"].endswith("-X")
    assert "neither a Kafka client nor kgm has this setting" in run.err
    document = kgm(*arguments, "-o", "json", env=env)
    rows = {row["key"]: row for row in json.loads(document.out)["data"]["settings"]}
    assert rows["sasl.password"] == {
        "key": "sasl.password", "value": None, "secret": True, "origin": "environment (KGM_SASL_PASSWORD)",
    }  # fmt: skip
    assert rows["output"]["origin"] == "flag"
    assert rows["security.protocol"]["origin"].startswith("profile prod (")
    for text in (run.out, run.err, document.out, document.err):
        assert CANARY not in text
    assert "ORIGIN" not in kgm(*arguments, "-o", "table", env=env).out
