"""Groups and instance ids completed by real bash, zsh and fish: what kgm is called with, and that nothing is run."""

from __future__ import annotations

import sys

import pytest

from kgm.cli.completion import cache
from kgm.cli.options.run_options import RunOptions
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from tests.cli.completion.shells import SHELLS, Shell
from tests.selection import sized
from tests.text.hostile import WIRE, hidden

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("name", SHELLS)]
HOSTILE = sorted(
    {one for one in WIRE if not hidden(one, but="")} | {"a b", "it's", "~", "*", "!!", "#x", "a;touch pwned", "größe"}
)


@pytest.fixture
def home(tmp_path, monkeypatch):
    home = {
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "KGM_BOOTSTRAP_SERVER": "broker-1:9092",
    }
    for variable, value in home.items():
        monkeypatch.setenv(variable, value)

    def members(*ids):
        return tuple(MemberSnapshot(member_id=f"{one}-id", group_instance_id=one) for one in ids)

    groups = {
        "payments": members("payments-1", "other"), "plain": (), "team:orders=1@eu": members("seat:1", "z"), "host": members(*HOSTILE),
        **{f"h{at:02d}{one}": () for at, one in enumerate(HOSTILE)},
    }  # fmt: skip
    seen = cache.SeenNames()
    for group, found in groups.items():
        seen.noted(GroupSnapshot(group_id=group, type="classic", state="Stable", members=found))
    cache.store_names(RunOptions(bootstrap="broker-1:9092"), seen)
    return home


def test_groups_ids_options_and_commands(name, tmp_path, home):
    with Shell(name, tmp_path, home) as shell:
        assert shell.complete("kgm describe pay") == ["describe", "payments"]
        assert shell.complete("kgm descr", " x") == ["describe", "x"]
        assert shell.complete("kgm remove-members payments -i pay") == [
            "remove-members",
            "payments",
            "-i",
            "payments-1",
        ]
        assert shell.complete("kgm remove-members payments -i other,pay") == [
            "remove-members",
            "payments",
            "-i",
            "other,payments-1",
        ]
        assert shell.complete("kgm list --all-heade") == ["list", "--all-heade"]
        assert shell.complete("kgm list --no-he") == ["list", "--no-headers"]
        assert shell.complete("kgm list -o nd") == ["list", "-o", "ndjson"]
        assert shell.complete("kgm config te") == ["config", "test"]
        assert shell.complete("kgm doctor --fail-on warn") == ["doctor", "--fail-on", "warning"]
        assert shell.complete("kgm doctor --check stalled-o") == ["doctor", "--check", "stalled-owner"]
        assert shell.complete("kgm watch payments --until bo") == ["watch", "payments", "--until", "bounced"]
        assert shell.complete("kgm describe --group=pay")[-1].endswith("payments")
        assert shell.complete("kgm describe nosuch") == ["describe", "nosuch"]
        assert shell.complete("kgm describe -b other:1 pay") == ["describe", "-b", "other:1", "pay"]
        (shell.cwd / "snapshot.json").touch()
        assert shell.complete("kgm assign --from-file snap") == ["assign", "--from-file", "snapshot.json"]


_SOURCED = {
    "bash": "source <({kgm} completion bash)",
    "zsh": "autoload -Uz compinit; compinit -u -D; source <({kgm} completion zsh)",
    "fish": "{kgm} completion fish | source",
}


def test_the_printed_script_can_be_sourced(name, tmp_path, home):
    load = _SOURCED[name].format(kgm=f"{sys.executable} -m kgm")
    with Shell(name, tmp_path, home, load=load) as shell:
        assert shell.complete("kgm describe pay") == ["describe", "payments"]
        assert shell.complete("kgm descr", " x") == ["describe", "x"]


def test_options_before_the_command(name, tmp_path, home):
    with Shell(name, tmp_path, home) as shell:
        assert shell.complete("kgm -o json descr", " x") == ["-o", "json", "describe", "x"]
        assert shell.complete("kgm --no-headers --color never config te")[2:] == ["never", "config", "test"]
        assert shell.complete("kgm -o nd", " list") == ["-o", "ndjson", "list"]
        assert shell.complete("kgm -b broker-1:9092 describe pay")[2:] == ["describe", "payments"]


def test_names_with_the_characters_at_which_bash_splits_words(name, tmp_path, home):
    typed = ["team", "team:", "team:ord", "team:orders=", "team:orders=1@"]
    if name == "bash":  # the others compare what is typed with how they would quote it themselves
        typed.append("team\\:ord")
    with Shell(name, tmp_path, home) as shell:
        for begun in typed:
            assert shell.complete(f"kgm describe {begun}") == ["describe", "team:orders=1@eu"], begun
        assert shell.complete("kgm remove-members team:orders=1@eu -i sea") == [
            "remove-members",
            "team:orders=1@eu",
            "-i",
            "seat:1",
        ]


def test_no_name_is_ever_run(name, tmp_path, home):
    """Inside quotes only literal names are offered; then the test closes the quote, and nothing is added."""
    with Shell(name, tmp_path, home) as shell:
        for quote in ("", "'", '"'):
            unfit = {"'": "'", '"': '"\\$`!', "": ""}[quote] if name == "bash" else ""
            for at, one in list(enumerate(HOSTILE))[:: sized(3, 1) if quote else 1]:
                is_offered = not set(one) & set(unfit)
                found = shell.complete(f"kgm describe {quote}h{at:02d}", "" if is_offered else quote)
                assert found == ["describe", f"h{at:02d}{one}" if is_offered else f"h{at:02d}"]
        assert list(shell.cwd.iterdir()) == []


def test_nothing_is_printed_when_there_is_nothing_to_offer(name, tmp_path, home):
    (file,) = (tmp_path / "cache/kgm/completion").iterdir()
    file.write_text("{broken")
    with Shell(name, tmp_path, home) as shell:
        assert shell.complete("kgm describe pay") == ["describe", "pay"]
        drawn = shell.screen.lower()
        assert "traceback" not in drawn
        assert "error" not in drawn


def test_nothing_is_printed_without_kgm(name, tmp_path, home):
    with Shell(name, tmp_path, home, program=False) as shell:
        shell.screen = ""
        shell.send("kgm describe pay\t\x01echo \x05\r")
        shell.run("true")
        assert "not found" not in shell.screen
        assert "rror" not in shell.screen
