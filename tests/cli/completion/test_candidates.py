"""`kgm __complete` and its cache: the right names for the right cluster, quoted, and never an error."""

import os
import pathlib
import shlex
import stat
import subprocess
import sys

import pytest

from kgm.cli.completion import cache
from kgm.cli.completion import candidates as completion
from kgm.cli.completion.candidates import candidates
from kgm.cli.options.run_options import RunOptions
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.text.braces import expand_list
from tests.cli.completion.shells import ROOT
from tests.cli.environment import forget_settings
from tests.cpu_time import allowed, spent_by_children
from tests.needs import needs
from tests.text.hostile import WIRE, hidden

SERVER = "broker-1:9092"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The environment of a user who has a cache, for `store` too."""
    forget_settings(monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return {
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "KGM_BOOTSTRAP_SERVER": SERVER,
    }


def store(*groups, bootstrap=SERVER, profile=None, **how):
    snapshots = [
        GroupSnapshot(
            group_id=name, type="classic", state="Stable",
            members=tuple(
                MemberSnapshot(member_id=f"{one}-id" if static else one, group_instance_id=one if static else None)
                for static, ids in ((True, static_ids), (False, dynamic_ids)) for one in ids
            ),
        )
        for name, static_ids, dynamic_ids in groups
    ]  # fmt: skip
    seen = cache.SeenNames()
    for one in snapshots:
        seen.noted(one)
    cache.store_names(RunOptions(bootstrap=bootstrap, profile=profile), seen, **how)


def zsh(home, kind, *words):
    return candidates(["zsh", kind, "kgm", *words], home)


def bash(home, kind, line):
    return candidates(["bash", kind, line], home)


def test_described_names_are_offered(home):
    store(("payments", ["p-1", "p-2"], ["dyn-1"]), ("orders", ["o-1"], []))
    assert zsh(home, "groups", "describe", "") == ["orders", "payments"]
    assert zsh(home, "instance-ids,", "remove-members", "payments", "-i", "") == ["p-1", "p-2"]
    assert zsh(home, "member-ids,", "remove-members", "-g", "payments", "-m", "") == ["dyn-1"]
    assert zsh(home, "identities,", "simulate-bounce", "--group=payments", "--remove", "") == ["dyn-1", "p-1", "p-2"]
    assert zsh(home, "instance-ids,", "remove-members", "-i", "") == []
    assert bash(home, "groups", "kgm describe pa") == ["payments"]
    assert bash(home, "instance-ids,", "kgm remove-members payments -i p-1,") == [
        "p-1,p-2"
    ]  # what is listed is not offered again
    assert bash(home, "instance-ids,", "kgm remove-members payments -i p-2,x,p-1,") == []
    assert candidates(["fish", "instance-ids,", "p-1,p", "kgm", "remove-members", "payments", "-i"], home) == [
        "p-1,p-2"
    ]


def test_a_complete_listing_removes_deleted_groups(home):
    store(("a", ["x"], []), ("b", [], []))
    store(listed=["a", "c"])
    assert zsh(home, "groups", "") == ["a", "b", "c"]
    store(listed=["a"], is_all=True)
    assert zsh(home, "groups", "") == ["a"]
    assert zsh(home, "instance-ids", "wait", "a", "") == ["x"]
    store(gone=["a"])
    assert zsh(home, "groups", "") == []


def test_each_cluster_and_each_profile_has_its_own(home, tmp_path):
    store(("here", [], []))
    store(("there", [], []), bootstrap="other:9092")
    store(("as-prod", [], []), bootstrap="prod:9092", profile="prod")
    assert zsh(home, "groups", "list", "") == ["here"]
    assert zsh(home, "groups", "list", "-b", "other:9092", "") == ["there"]
    assert zsh(home, "groups", "list", "--bootstrap-server=other:9092", "") == ["there"]
    assert zsh({**home, "KGM_BOOTSTRAP_SERVER": "", "KAFKA_BOOTSTRAP_SERVERS": "other:9092"}, "groups", "list", "") == [
        "there"
    ]
    folder = tmp_path / "config" / "kgm"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(
        '[profiles.prod]\nbootstrap_server = "prod:9092"\n[profiles."$(id)"]\n[profiles."\\u202e"]\n'
    )
    del home["KGM_BOOTSTRAP_SERVER"]
    assert zsh(home, "groups", "list", "--profile", "prod", "") == ["as-prod"]
    assert zsh({**home, "KGM_PROFILE": "prod"}, "groups", "list", "") == ["as-prod"]
    assert zsh(home, "profiles", "list", "--profile", "") == ["$(id)", "prod"]
    assert bash(home, "profiles", "kgm list --profile ") == [r"\$\(id\)", "prod"]
    (tmp_path / "client.properties").write_text("bootstrap.servers=other:9092\n")
    assert zsh(home, "groups", "list", "--command-config", str(tmp_path / "client.properties"), "") == ["there"]


def test_the_cache_is_for_its_owner_only(home, tmp_path):
    store(("a", [], []))
    (file,) = (tmp_path / "cache/kgm/completion").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "kgm names 1\ngroup a\ninstance x",
        "kgm names 2",
        "kgm names 2\ninstance x",
        "kgm names 2\n\ngroup\ninstance x\ngroup a\nseat x\ninstance",
        "kgm names 2\ngroup a\udcff".encode("utf-8", "surrogateescape"),
        '{"version": 1, "groups": {"a": {"instance_ids": ["x"]}}}',
        "\0" * 100,
        "\n" * 100_000,
    ],
)
def test_a_broken_cache_offers_nothing_and_is_replaced(home, tmp_path, text):
    store(("a", [], []))
    (file,) = (tmp_path / "cache/kgm/completion").iterdir()
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert zsh(home, "instance-ids", "a", "a", "") == []
    store(("b", [], []))
    assert "b" in zsh(home, "groups", "")


def test_a_cache_that_cannot_be_written_is_ignored(home, tmp_path):
    (tmp_path / "cache").write_text("no folder")
    store(("a", [], []))
    assert zsh(home, "groups", "") == []


def test_names_that_a_terminal_acts_on_are_not_stored(home, tmp_path):
    store(*[(name, [name], [name]) for name in WIRE], listed=WIRE)
    kept = zsh(home, "groups", "describe", "")
    assert set(kept) == {name for name in WIRE if not hidden(name, but="") and not name.startswith("-")}
    (file,) = (tmp_path / "cache/kgm/completion").iterdir()
    assert hidden(file.read_text()) == []
    # If they are in the file nevertheless, they are not offered either.
    ids = [f"instance {name}" for name in WIRE]
    file.write_text("\n".join(["kgm names 2", *(line for name in WIRE for line in (f"group {name}", *ids))]))
    assert not [
        name
        for kind in ("groups", "instance-ids,")
        for name in zsh(home, kind, "describe", "+1", "")
        if hidden(name, but="")
    ]


def test_what_bash_would_act_on_is_quoted(home):
    names = [name for name in WIRE if not hidden(name, but="") and not name.startswith("-")]
    names += [
        "a b",
        "a\\b",
        "*",
        "?",
        "~root",
        "~",
        "#no",
        "a&b|c;d>e<f",
        "!x",
        "{a,b}",
        "^a^b",
        "it's",
        'say "x"',
        "$HOME",
        "a=b",
        "@x",
        "größe",
    ]
    store(*[(name, [name], []) for name in names])
    for name, quoted in zip(sorted(names), bash(home, "groups", "kgm describe "), strict=True):
        assert shlex.split(quoted, comments=True) == [name]
        done = subprocess.run(
            [needs("bash"), "-c", f"printf %s {quoted}"],
            capture_output=True,
            text=True,
            check=True,
            cwd="/",
            env={"HOME": "/root"},
        )
        assert (done.stdout, done.stderr) == (name, "")


@pytest.mark.parametrize("quote", ["'", '"'])
def test_inside_quotes_only_literal_names_are_offered(home, quote):
    store(*[(name, [], []) for name in ("$(id)", "`id`", "it's", 'a"b', "a b", "!x", "x\\y")])
    found = bash(home, "groups", f"kgm describe {quote}")
    assert found == (["!x", "$(id)", "`id`", "a b", 'a"b', "x\\y"] if quote == "'" else ["a b", "it's"])[: len(found)]
    assert len(found) == (6 if quote == "'" else 2)


def test_bash_replaces_only_what_follows_its_word_breaks(home):
    store(("app:1=x@y", ["seat:1"], []))
    for typed, rest in (("a", "app:1=x@y"), ("app:", "1=x@y"), ("app:1=x", "x@y"), ("app\\:1=x@", "@y")):
        (found,) = bash(home, "groups", f"kgm describe {typed}")
        assert found.endswith(rest), (typed, found)
        assert shlex.split(found)[0] == rest
    assert bash(home, "groups", "kgm describe app:") == candidates(["bash", "groups", "kgm describe app:", ":"], home)
    assert candidates(["bash", "groups", "kgm describe app:", ""], home) == ["app:1=x@y"]
    assert bash(home, "instance-ids,", "kgm remove-members -g app:1=x@y --instance-ids=se") == ["seat:1"]


def test_ids_with_list_characters_are_escaped_in_lists(home):
    ids = ["a,b", "{1..3}", "x{a,b}", "back\\slash", " blank", "plain"]
    store(("g", ids, []))
    found = zsh(home, "instance-ids,", "remove-members", "g", "-i", "")
    assert sorted(name for text in found for name in expand_list(text, "")) == sorted(ids)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["bash"],
        ["bash", "groups"],
        ["nosuch", "x"],
        ["fish", "groups"],
        ["bash", "groups", "kgm 'open"],
        ["zsh", "groups", "kgm", "-X", "nonsense"],
        ["zsh", "groups", "kgm", "--profile", "none"],
        ["zsh", "groups", "kgm", "--command-config", "/no/such"],
    ],
)
def test_nothing_is_printed_on_errors(home, arguments):
    done = subprocess.run(
        [sys.executable, "-m", "kgm", "__complete", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **home},
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.long
@pytest.mark.slow
def test_it_is_quick_with_a_thousand_groups_and_ten_thousand_ids(home):
    """Measured: 0.08 s, of which Python itself takes a third. CPU time, because the machine may be busy."""
    store(*[(f"group-{i:04d}", [f"group-{i:04d}-seat-{k}" for k in range(10)], []) for i in range(1000)])
    config = pathlib.Path(home["XDG_CONFIG_HOME"], "kgm/config.toml")  # there may be profiles, which are looked at
    config.parent.mkdir(parents=True)
    config.write_text('[profiles.other]\nbootstrap_server = "elsewhere:9092"\nsecurity.protocol = "SSL"\n')
    command = [sys.executable, "-m", "kgm", "__complete", "bash", "groups", "kgm describe group-00"]

    best = float("inf")
    for _ in range(5):
        start = spent_by_children()
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **home}, check=True)
        best = min(best, spent_by_children() - start)
    assert len(done.stdout.split()) == 100
    assert best < allowed(0.3)


def test_it_does_not_load_what_commands_need(home):
    store(("a", [], []))
    code = (
        "import sys; from kgm.cli.completion.candidates import complete; complete(['bash', 'groups', 'kgm describe ']);"
        "heavy = {'typer', 'click', 'dataclasses', 'pathlib', 'kgm.cli.main', 'kgm.client', 'kgm.operations.settings.loading', 'socket', 'rich'};"
        "sys.stderr.write(' '.join(sorted(heavy & set(sys.modules))))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **home, "PYTHONPATH": str(ROOT)},
    )
    assert (done.stdout, done.stderr) == ("a\n", "")


def test_lines_are_split_as_bash_does():
    assert completion._split_line("kgm  describe 'a b' c\\ d \"x") == ["kgm", "describe", "'a b'", "c\\ d", '"x']
    assert completion._split_line("kgm ") == ["kgm", ""]
    assert completion._unquoted('a\\ b\'c d\'"e\\"f"') == ('a bc de"f', "")
    assert completion._unquoted("'a\\b") == ("a\\b", "'")
