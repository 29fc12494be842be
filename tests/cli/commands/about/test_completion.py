"""`kgm completion`: the scripts of completions/, printed or installed."""

import pytest

from tests import ROOT
from tests.cli.runner import kgm

SCRIPTS = {"bash": "kgm.bash", "zsh": "_kgm", "fish": "kgm.fish"}
PLACES = {
    "bash": "data/bash-completion/completions/kgm",
    "zsh": "data/zsh/site-functions/_kgm",
    "fish": "config/fish/completions/kgm.fish",
}


@pytest.fixture
def env(tmp_path):
    return {
        "HOME": str(tmp_path / "home"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_script_is_printed(shell):
    run = kgm("completion", shell)
    assert (run.code, run.err) == (0, "")
    assert run.out == (ROOT / "completions" / SCRIPTS[shell]).read_text()


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_script_is_installed_and_replaced_later(shell, tmp_path, env):
    path = tmp_path / PLACES[shell]
    for _ in range(2):
        run = kgm("completion", shell, "--install", env=env)
        assert (run.code, run.out) == (0, f"{path}\n"), run.err
        assert path.read_text() == (ROOT / "completions" / SCRIPTS[shell]).read_text()
        path.write_text(path.read_text() + "# of an older version\n")
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_without_xdg_variables_it_is_installed_at_home(tmp_path, env):
    run = kgm("completion", "bash", "--install", env={**env, "XDG_DATA_HOME": "relative/is/ignored"})
    assert run.code == 0, run.err
    assert (tmp_path / "home/.local/share/bash-completion/completions/kgm").is_file()


def test_zsh_needs_a_line_in_zshrc(tmp_path, env):
    assert f"fpath=({tmp_path}/data/zsh/site-functions $fpath)" in kgm("completion", "zsh", "--install", env=env).err


def test_a_file_of_somebody_else_is_not_replaced(tmp_path, env):
    path = tmp_path / PLACES["bash"]
    path.parent.mkdir(parents=True)
    path.write_text("complete -W 'a b' kgm\n")
    run = kgm("completion", "bash", "--install", env=env)
    assert run.code == 6
    assert f"error: nothing was changed: {path} is not a completion script of kgm" in run.err
    assert path.read_text() == "complete -W 'a b' kgm\n"


def test_a_folder_that_cannot_be_made(tmp_path, env):
    (tmp_path / "data").write_text("")
    run = kgm("completion", "bash", "--install", env=env)
    assert run.code == 2
    assert f"{tmp_path}/data/bash-completion/completions/kgm cannot be written: Not a directory" in run.err
