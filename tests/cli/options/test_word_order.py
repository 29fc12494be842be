"""Options before the command, `-o=json`, and `kgm help`."""

import json

import pytest

from kgm.cli.options.word_order import in_order
from kgm.model.errors import UsageError
from tests.cli.runner import kgm

GROUPS = ("history", "config")
CASES = {
    "list -o json": "list -o json",
    "--profile p list": "list --profile p",
    "--profile=p -ojson list --no-headers": "list --profile=p -ojson --no-headers",
    "--no-headers --debug list x": "list --no-headers --debug x",
    "-X a=b -X c=d -Xe=f describe g": "describe -X a=b -X c=d -Xe=f g",
    "-o json config view": "config view -o json",
    "config -o json view --show-origin": "config view -o json --show-origin",
    "-b a:1 history --timeout 3s explain g": "history explain -b a:1 --timeout 3s g",
    "-o json list -o csv": "list -o json -o csv",  # the last one counts, as everywhere
    "list -- -o json": "list -- -o json",
    "-o list describe": "describe -o list",
    "-o json list --help": "list --help",
    "-o json --version": "--version",
    "-o json config --help": "config --help",
    "--state x list": "--state x list",  # not an option of every command
    "help": "--help",
    "help history explain": "history explain --help",
    "help --man list": "help --man list",
    "-o json help list": "list --help",
    "--version": "--version",
    "": "",
}


@pytest.mark.parametrize("typed", CASES)
def test_the_command_comes_first(typed):
    assert " ".join(in_order(typed.split(), GROUPS)) == CASES[typed]


@pytest.mark.parametrize("typed", ["-o json", "-b", "--debug"])
def test_options_alone_are_no_command(typed):
    with pytest.raises(UsageError, match="no command is given"):
        in_order(typed.split(), GROUPS)


@pytest.mark.parametrize(
    "typed",
    ["-o json config view", "-o=json config view", "config view -o=json", "config -ojson view", "config view -o json"],
)
def test_every_order_prints_the_same(typed, tmp_path):
    run = kgm(*typed.split(), env={"XDG_CONFIG_HOME": str(tmp_path)})
    assert (run.code, run.err) == (0, "")
    assert json.loads(run.out)["schema"] == "kgm.config-view/v1"


def test_the_values_arrive(tmp_path):
    run = kgm(
        "-X", "client.id=me", "--timeout", "7s", "-o=json", "config", "view", env={"XDG_CONFIG_HOME": str(tmp_path)}
    )
    values = {one["key"]: one["value"] for one in json.loads(run.out)["data"]["settings"]}
    assert values["client.id"] == "me"
    assert values["timeout"] == "7000ms"


def test_a_profile_before_the_command(tmp_path):
    (tmp_path / "kgm").mkdir()
    (tmp_path / "kgm" / "config.toml").write_text('[profiles.p]\nbootstrap_server = "broker-7:9092"\n')
    run = kgm("--profile", "p", "config", "view", "-o", "json", env={"XDG_CONFIG_HOME": str(tmp_path)})
    values = {one["key"]: one["value"] for one in json.loads(run.out)["data"]["settings"]}
    assert values["bootstrap_server"] == "broker-7:9092"


def test_an_error_is_json_too():
    run = kgm("-o=json", "config", "view", "--profile", "none", env={"XDG_CONFIG_HOME": "/nonexistent"})
    assert run.code == 2
    assert json.loads(run.out)["schema"] == "kgm.config-view/v1"
    assert [one["code"] for one in json.loads(run.out)["errors"]] == ["FILE_NOT_FOUND"]
    run = kgm("-o", "json")
    assert run.code == 2
    assert json.loads(run.out)["errors"][0]["message"] == "no command is given"
