"""completions/ and man/ match the command tree, are complete, and are valid."""

import subprocess
import sys
import tomllib

import pytest

from tests.cli.completion.shells import ROOT
from tests.needs import needs
from tools.generate_manual import files
from tools.manual.tree import command_tree, leaves

PAGES = sorted((ROOT / "man").glob("*.1"))


@pytest.mark.slow
def test_everything_is_up_to_date():
    done = subprocess.run(
        [sys.executable, ROOT / "tools/generate_manual.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}run: python tools/generate_manual.py"


def test_every_command_has_a_page_and_every_option_is_on_it():
    made = files()
    for command in command_tree().walk():
        page = made[f"man/{'-'.join(('kgm', *command.words))}.1"].replace("\\-", "-")
        for option in command.options:
            assert option.help, (command.name, option.names)
            for name in option.names:
                assert name in page
                assert name in made["completions/kgm.bash"]
                assert name in made["completions/_kgm"]
                assert (
                    f"-l {name[2:]}" in made["completions/kgm.fish"] or f"-s {name[1:]}" in made["completions/kgm.fish"]
                )
    assert len(PAGES) == sum(1 for _ in command_tree().walk())


def test_the_tree_has_every_command():
    assert {("list",), ("describe",), ("remove-members",), ("config", "view"), ("config", "test")} <= leaves().keys()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_mandoc_finds_nothing(page):
    done = subprocess.run([needs("mandoc"), "-Tlint", page], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("", "")


def test_the_wheel_puts_them_where_shells_and_man_look():
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["shared-data"] == {
        "completions/kgm.bash": "share/bash-completion/completions/kgm",
        "completions/_kgm": "share/zsh/site-functions/_kgm",
        "completions/kgm.fish": "share/fish/vendor_completions.d/kgm.fish",
        "man": "share/man/man1",
    }
    assert {path.name for path in (ROOT / "completions").iterdir()} == {"kgm.bash", "_kgm", "kgm.fish"}
