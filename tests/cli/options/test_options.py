"""The options of every command: precedence, and errors that name what was typed."""

import pytest

from kgm.cli.options.run_options import RunOptions, run_options
from kgm.model.errors import UsageError

VALUES = {"output": "table", "no_headers": False, "color": "auto", "debug": False}


def test_order_of_settings(tmp_path, monkeypatch):
    path = tmp_path / "c"
    path.write_text("bootstrap.servers=config:1")
    monkeypatch.delenv("KGM_BOOTSTRAP_SERVER", raising=False)
    assert run_options(VALUES | {"command_config": str(path)}).bootstrap == "config:1"
    monkeypatch.setenv("KGM_BOOTSTRAP_SERVER", "env:1")
    assert run_options(VALUES | {"command_config": str(path)}).bootstrap == "env:1"
    assert run_options(VALUES | {"command_config": str(path), "extra": ["bootstrap.servers=x:1"]}).bootstrap == "x:1"
    assert (
        run_options(VALUES | {"bootstrap_server": "flag:1", "extra": ["bootstrap.servers=x:1"]}).bootstrap == "flag:1"
    )


@pytest.mark.parametrize("bad", [{"output": "xml"}, {"color": "red"}, {"extra": ["novalue"]}, {"extra": ["=v"]}])
def test_bad_options_are_usage_errors(bad):
    with pytest.raises(UsageError):
        run_options(VALUES | bad)


def test_the_environment_of_other_tools_is_for_reads_only(monkeypatch):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    with pytest.raises(UsageError, match="no bootstrap server"):
        RunOptions().cluster(reads_only=False)


def test_incomplete_sasl_settings_are_refused_instead_of_using_plaintext():
    with pytest.raises(UsageError, match=r"sasl\.mechanism is not set"):
        RunOptions(bootstrap="127.0.0.1:1", settings={"security.protocol": "SASL_SSL"}).cluster(reads_only=True)
