"""Common options: durations, properties files, precedence, and the errors that name what was typed."""

import pytest

from kgm.cli.options.common import Common, _common
from kgm.cli.options.properties import read_properties
from kgm.model.errors import NotFoundError, UsageError
from kgm.text.durations import parse_duration, show_duration

VALUES = {"output": "table", "no_headers": False, "color": "auto", "debug": False}


@pytest.mark.parametrize(
    ("text", "ms"), [("500ms", 500), ("5s", 5000), ("2m", 120_000), ("1h", 3_600_000), ("30", 30_000), ("1.5s", 1500)]
)
def test_durations(text, ms):
    assert parse_duration(text, "--timeout") == ms


@pytest.mark.parametrize("text", ["", "x", "5 parsecs", "-1s", "1e9s"])
def test_what_is_no_duration(text):
    with pytest.raises(UsageError, match="--timeout"):
        parse_duration(text, "--timeout")


@pytest.mark.parametrize(
    ("ms", "text"), [(None, "?"), (500, "500ms"), (5000, "5s"), (90_000, "1m30s"), (3_600_000, "1h"), (1500, "1.5s")]
)
def test_durations_are_shown_as_people_write_them(ms, text):
    assert show_duration(ms) == text


def test_properties_as_java_reads_them(tmp_path):
    path = tmp_path / "client.properties"
    path.write_text(
        "# c\n! c\n\nbootstrap.servers = a:1,\\\n   b:2\nx:y\nspaced value\nempty=\nuni=\\u0041\\t.\nk\\=ey=v\n"
    )
    assert read_properties(str(path)) == {
        "bootstrap.servers": "a:1,b:2", "x": "y", "spaced": "value", "empty": "", "uni": "A\t.", "k=ey": "v",
    }  # fmt: skip


def test_a_missing_properties_file_is_not_found(tmp_path):
    with pytest.raises(NotFoundError):
        read_properties(str(tmp_path / "none"))


def test_order_of_settings(tmp_path, monkeypatch):
    path = tmp_path / "c"
    path.write_text("bootstrap.servers=config:1")
    monkeypatch.delenv("KGM_BOOTSTRAP_SERVER", raising=False)
    assert _common(VALUES | {"command_config": str(path)}).bootstrap == "config:1"
    monkeypatch.setenv("KGM_BOOTSTRAP_SERVER", "env:1")
    assert _common(VALUES | {"command_config": str(path)}).bootstrap == "env:1"
    assert _common(VALUES | {"command_config": str(path), "extra": ["bootstrap.servers=x:1"]}).bootstrap == "x:1"
    assert _common(VALUES | {"bootstrap_server": "flag:1", "extra": ["bootstrap.servers=x:1"]}).bootstrap == "flag:1"


@pytest.mark.parametrize("bad", [{"output": "xml"}, {"color": "red"}, {"extra": ["novalue"]}, {"extra": ["=v"]}])
def test_bad_options_are_usage_errors(bad):
    with pytest.raises(UsageError):
        _common(VALUES | bad)


def test_the_environment_of_other_tools_is_for_reads_only(monkeypatch):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    with pytest.raises(UsageError, match="no bootstrap server"):
        Common().cluster(reads_only=False)


def test_a_secured_cluster_is_refused_rather_than_spoken_to_in_plaintext():
    with pytest.raises(UsageError, match=r"sasl\.mechanism is not set"):
        Common(bootstrap="127.0.0.1:1", settings={"security.protocol": "SASL_SSL"}).cluster(reads_only=True)
