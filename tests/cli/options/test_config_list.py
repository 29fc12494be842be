"""`kgm config list`: the profiles, without secrets."""

from __future__ import annotations

import json

from kgm.cli.main import run

CANARY = "canary-5d1e"
FILE = f"""
default_profile = "b"
[profiles.a]
bootstrap_server = "a-1:9092"
"bootstrap.servers" = "other:1"
expect_cluster_id = "id-a"
"sasl.password" = "{CANARY}"
[profiles.b]
"bootstrap.servers" = "b-1:9092"
command_config = "b.properties"
[profiles.c.bootstrap]
servers = "SASL_SSL://x:{CANARY}@c-1:9092"
"""


def test_profiles(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = tmp_path / "kgm" / "config.toml"
    assert run(["config", "list", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"] == {"file": str(path), "profiles": []}
    path.parent.mkdir()
    path.write_text(FILE)
    path.chmod(0o600)
    assert run(["config", "list", "-o", "json"]) == 0
    out = capsys.readouterr().out
    assert CANARY not in out
    a, b, c = json.loads(out)["data"]["profiles"]
    assert a == {
        "name": "a", "bootstrap_server": "a-1:9092", "expect_cluster_id": "id-a", "command_config": None,
        "default": False,
    }  # fmt: skip
    assert (b["bootstrap_server"], b["command_config"], b["default"]) == ("b-1:9092", "b.properties", True)
    assert c["bootstrap_server"] == "SASL_SSL://(hidden)@c-1:9092"
    assert run(["config", "list", "-o", "name"]) == 0
    assert capsys.readouterr().out == "a\nb\nc\n"
