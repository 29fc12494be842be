"""Names on the command line that Kafka's protocol cannot carry: strings are UTF-8, of at most 32767 bytes."""

import json

import pytest

from kgm.cli.main import run
from kgm.cli.options.removal_ids import read_ids
from kgm.model.errors import EncodeError, UsageError
from kgm.protocol import codec
from kgm.protocol.messages.heartbeat_request import HeartbeatRequest
from kgm.text.names import check_name
from tests.cli.environment import forget_settings
from tools.manual.tree import leaves

LONGEST = "é" * 16383 + "x"
#: A byte that is not UTF-8, as Python reads it from the command line.
BYTE = "\udcff"
UNSENDABLE = [BYTE, f"a{BYTE}b", "\ud800", LONGEST + "x"]
_CLUSTER = ["-b", "127.0.0.1:1", "--timeout", "1s"]


@pytest.mark.parametrize("name", UNSENDABLE)
def test_a_name_is_refused_if_it_cannot_be_encoded(name):
    with pytest.raises(EncodeError):
        codec.encode(HeartbeatRequest(group_id=name, member_id=""), 3)
    with pytest.raises(UsageError, match="--topic: ") as caught:
        check_name(name, "--topic")
    assert caught.value.exit_code == 2
    assert len(caught.value.message) < 200


def test_the_longest_name_can_be_sent():
    check_name(LONGEST, "--topic")
    assert codec.encode(HeartbeatRequest(group_id=LONGEST, member_id=""), 3)


def _commands_with_groups():
    for words, leaf in leaves().items():
        for param in leaf.params:
            if param.name in ("group", "groups", "group_option"):
                yield pytest.param([*words], [] if param.param_type_name == "argument" else [param.opts[-1]], leaf,
                                   id=f"{'-'.join(words)}-{param.name}")  # fmt: skip


@pytest.mark.few(8)
@pytest.mark.parametrize(("words", "option", "leaf"), [*_commands_with_groups()])
@pytest.mark.parametrize("name", UNSENDABLE[::3], ids=["bytes", "length"])
def test_every_command_refuses_such_a_group(words, option, leaf, name, monkeypatch, capsys):
    forget_settings(monkeypatch)
    others = [one for one in leaf.params if one.required and not one.name.startswith("group")]
    needed = [word for one in others for word in ([one.opts[0], "1"] if one.opts[0].startswith("-") else ["live"])]
    assert run([*words, *option, name, *needed]) == 2
    assert "the name of a group: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["remove-members", "g", "-y", "-i", f"a,{BYTE}"],
        ["remove-members", "g", "-y", "-m", BYTE],
        ["rollout", "g", "-i", BYTE, "--exec", "true"],
        ["drain", "--host", BYTE],
        ["drain", "--host", "127.0.0.1/99"],
        ["describe", "--topic", BYTE],
        ["list", "--topic", LONGEST + "x"],
        ["diff", f"live:{BYTE}", "live:g"],
    ],
)
def test_other_names_are_refused_before_a_connection(words, monkeypatch, capsys):
    forget_settings(monkeypatch)
    assert run([*words, *_CLUSTER, "-o", "json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert [one["code"] for one in document["errors"]] == ["USAGE"]


def test_an_id_in_a_file_may_be_as_long(tmp_path):
    (tmp_path / "ids").write_text(f"{LONGEST}\n")
    assert read_ids(str(tmp_path / "ids")) == (LONGEST,)
    (tmp_path / "ids").write_text(f"a\n{LONGEST}x\n")
    with pytest.raises(UsageError, match="line 2: "):
        read_ids(str(tmp_path / "ids"))
