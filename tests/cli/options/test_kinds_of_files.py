"""Every path that an operator may name, found in the command tree, as a FIFO, a device, a directory or a file without an
end: the command ends at once, with a usage error."""

from __future__ import annotations

import os

import pytest

from kgm.cli.main import run
from tests.cli.environment import forget_settings
from tools.manual.tree import leaves

LOGS = "segments:tests/data/offsets-log/plain"
CLUSTER = ["-b", "127.0.0.1:1"]
#: What a command needs besides the path.
CALLS = {
    "list": CLUSTER,
    "describe": ["orders", *CLUSTER],
    "remove-members": ["orders", *CLUSTER],
    "delete-groups": ["orders", *CLUSTER],
    "simulate-bounce": ["--all"],
    "drain": ["--client-id", "*", "--draws", "2"],
    "plan": ["orders", "--restart-time", "5s", "--draws", "1", "--budget", "10ms"],
    "rollout": ["orders", "--all", "--exec", "true", *CLUSTER],
    "scale-in": ["orders", "--to", "1", *CLUSTER],
    "watch": ["orders", *CLUSTER],
    "wait": ["orders", "--for", "stable", *CLUSTER],
    "doctor": CLUSTER,
    "diff": [],
    "export": CLUSTER,
    "assign": [],
    "serve": [],
    "config view": [],
    "config list": [],
    "config test": CLUSTER,
}
#: Options that are not tried, and why.
NOT_TRIED = {
    ("rollout", "--journal"): "tests/operations/rollout", ("rollout", "--resume"): "tests/operations/rollout",
    ("export", "--textfile"): "it ends with .prom, and is replaced",
    "--jars": "Spark reads it", "history capture": "starts Spark", "history build": "starts Spark",
}  # fmt: skip
IS_PATH = ("FILE", "DIR", "PATH", "SNAPSHOT", "SOURCE")
KINDS = ("fifo", "device", "directory", "memory", "sparse", "unreadable")
#: Directories are read, or nothing of the kind is there: other ends are right too.
FOLDERS = ("--source", "--store", "--data-dir", "--history", "--broker-log")


def paths():
    """(command, option or argument) of every path."""
    for words, leaf in leaves().items():
        command = " ".join(words)
        for param in leaf.params:
            is_side = command == "diff" and param.param_type_name == "argument"
            if not is_side and not any(word in (param.metavar or "") for word in IS_PATH):
                continue
            name = param.opts[0]
            if not any(key in NOT_TRIED for key in ((command, name), name, command)):
                yield command, name


ALL = sorted(set(paths()))
#: Each option once: most commands have the same ones.
ONCE = sorted({name: (command, name) for command, name in reversed(ALL) if name != "--from-file"}.values())
ONCE += [one for one in ALL if one[1] == "--from-file"]


#: What the values of all other options and arguments are: none is the name of a file. A new word has to be put somewhere.
NO_PATH = {
    "ADDRESS", "BROKER.KEY=VALUE", "CMD", "COLUMN", "CONDITION", "DURATION", "FORMAT", "GLOB", "GROUP", "GROUP...", "HOST",
    "HOST:PORT", "HOST:PORT[,...]", "HOW", "ID[,ID...]", "K", "KEY=VALUE", "KIND", "LABELS", "N", "NAME", "NAME:PARTITIONS",
    "ORDER", "PERCENT", "PROCESS", "RACK", "SEVERITY", "SHELL", "TIME", "TOPIC", "TYPE", "URL", "VERSION", "WHAT", "WHEN",
    "[COMMAND]...", "[GROUP=]TIME", "[GROUP]", "[GROUP]...", "text",
}  # fmt: skip


def test_no_new_path_is_forgotten():
    for words, leaf in leaves().items():
        for param in leaf.params:
            said = param.metavar or param.type.name
            is_side = words == ("diff",) and param.param_type_name == "argument"
            if getattr(param, "is_flag", False) or said in NO_PATH or is_side:
                continue
            assert any(word in said for word in IS_PATH), f"{words} {param.opts[0]} {said}: is it a path?"


def test_the_paths_are_found():
    assert {("list", "--command-config"), ("diff", "a"), ("watch", "--baseline"), ("serve", "--data-dir")} <= set(ALL)
    assert len(ALL) > 50


@pytest.fixture
def files(tmp_path, monkeypatch):
    forget_settings(monkeypatch)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "directory").mkdir()
    (tmp_path / "snapshot.json").write_text(SNAPSHOT)
    return tmp_path


SNAPSHOT = """{"group_id": "orders", "type": "classic", "state": "Stable", "protocol_type": "consumer", "assignor": "range",
"topics": [{"name": "orders", "partitions": 2}], "members": [{"group_instance_id": "a", "member_id": "a-1",
"client_id": "c", "client_host": "/10.0.0.1", "subscription": {"topics": ["orders"]}, "assignment": {"orders": [0, 1]}}]}"""


def path_of(kind, files):
    return {"device": "/dev/zero", "memory": "/proc/self/mem"}.get(kind, str(files / kind))


def words_of(command, name, path, files):
    words = [*command.split(), *CALLS.get(command, [])]
    snapshot = str(files / "snapshot.json")
    if command == "diff":
        sides = [path, snapshot] if name == "a" else [snapshot, path]
        return [*words, *(sides if name in "ab" else [snapshot, snapshot, name, path])]
    if command.startswith("history"):
        is_of_group = any(param.param_type_name == "argument" for param in leaves()[tuple(command.split())].params)
        words += ["billing"] if is_of_group else []
        if name not in ("--source", "--store"):
            words += ["--source", LOGS]
        return [*words, name, f"segments:{path}" if name == "--source" else path]
    if name == "--restart-times":
        words = ["plan", "orders"]
    if command in ("plan", "simulate-bounce", "drain") and name != "--from-file":
        words += ["--from-file", snapshot]
    if command == "assign":
        words = ["assign"]
    return [*words, name, path]


def check(command, name, kind, files, capsys):
    with (files / "sparse").open("wb") as file:  # a report of the command before may be in its place
        file.truncate(1 << 40)
    (files / "unreadable").unlink(missing_ok=True)
    (files / "unreadable").write_text("x")
    (files / "unreadable").chmod(0)
    words = words_of(command, name, path_of(kind, files), files)
    code = run([*words, "--timeout", "5s"] if command not in ("assign", "serve") else words)
    captured = capsys.readouterr()
    assert "internal error" not in captured.err, captured.err
    is_folder = name in FOLDERS and kind == "directory"
    is_written = name == "--report" and kind in ("sparse", "unreadable", "device")
    is_root = kind == "unreadable" and os.geteuid() == 0
    if not (is_folder or is_written or is_root):
        assert code == 2, (words, captured.err)
    assert is_written or is_root or captured.err, words


#: With every kind; the others, which open files with the same function, with a FIFO only. A log may be any size.
THOROUGH = (("list", "--command-config"), ("simulate-bounce", "--from-file"))


def tried():
    for one in ONCE:
        kinds = KINDS if one in THOROUGH else ("fifo", "sparse") if one[1] == "--broker-log" else ("fifo",)
        yield from ((one, kind) for kind in kinds)


@pytest.mark.few(8)
@pytest.mark.parametrize(
    ("one", "kind"), [*tried()], ids=lambda value: value if isinstance(value, str) else " ".join(value)
)
def test_each_path_takes_each_kind_of_file(one, kind, files, capsys):
    check(*one, kind, files, capsys)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_every_path_takes_each_kind_of_file(kind, files, capsys):
    for one in ALL:
        if one[1] != "--data-dir" or kind != "directory":  # that is what it takes: it would serve
            check(*one, kind, files, capsys)
