"""An exported address and a profile or file that is named: nothing is changed on a cluster that may not be meant."""

from __future__ import annotations

import json

import pytest

from kgm.cli.main import run
from tests.client.conftest import form, group, server  # noqa: F401  (fixtures)

pytestmark = pytest.mark.usefixtures("nobody_returns")

REMOVE = ("-i", "a", "--yes", "--assume-stopped", "--guard-window", "50ms", "--no-audit")


@pytest.fixture
def elsewhere(tmp_path, monkeypatch, server):  # noqa: F811
    """A profile and a client.properties of another cluster; the embedded server is exported."""
    folder = tmp_path / "xdg" / "kgm"
    folder.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("KGM_BOOTSTRAP_SERVER", server.bootstrap)
    (folder / "config.toml").write_text(
        f'[profiles.prod]\nbootstrap_server = "prod-1:9093,prod-2:9093"\n[profiles.same]\nbootstrap_server = "x:1,{server.bootstrap}"\n'
        f'[profiles.none]\ntimeout = "9s"\n[profiles.file]\ncommand_config = "{tmp_path}/client.properties"\n'
    )
    (tmp_path / "client.properties").write_text("bootstrap.servers=prod-1:9093\n")
    return str(tmp_path / "client.properties")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["--profile prod", "--command-config FILE", "--profile file"])
def test_nothing_is_changed_and_reads_are_warned(how, elsewhere, server, group, form, capsys):  # noqa: F811
    form("a", "b")
    words = how.replace("FILE", elsewhere).split()
    assert run(["remove-members", group, *words, *REMOVE]) == 6
    err = capsys.readouterr().err
    shown = " ".join(words)
    assert f"error: nothing was changed: {shown} names the brokers prod-1:9093" in err
    assert f"KGM_BOOTSTRAP_SERVER names others: {server.bootstrap}" in err
    assert "hint: name the cluster with -b HOST:PORT, or unset KGM_BOOTSTRAP_SERVER" in err
    assert run(["describe", group, *words, "-o", "json"]) == 0
    out, err = capsys.readouterr()
    assert len(json.loads(out)["data"]["groups"][0]["members"]) == 2
    assert f"warning: {shown} names the brokers prod-1:9093" in err
    assert run(["config", "view", *words]) == 0
    assert f"warning: {shown} names the brokers" in capsys.readouterr().err
    assert run(["remove-members", group, *words, *REMOVE, "--dry-run"]) == 0
    assert f"warning: {shown} names the brokers" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("how", ["--profile prod -b SERVER", "--profile same", "--profile none", ""])
def test_what_is_clear_is_done_without_a_word(how, elsewhere, server, group, form, capsys):  # noqa: F811
    form("a", "b")
    words = how.replace("SERVER", server.bootstrap).split()
    assert run(["remove-members", group, *words, *REMOVE]) == 0
    assert "names the brokers" not in capsys.readouterr().err
