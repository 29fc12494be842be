"""Ways in, as a newcomer would try them: pipx, uv tool and uvx, from a folder of wheels. Nothing is fetched."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from kgm.version import __version__
from tests.cli.environment import bare
from tests.needs import needs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
BIN = pathlib.Path(sys.executable).parent


@pytest.fixture
def run(wheels, tmp_path):
    """Run a command in a home where nothing was installed yet; its stdout and stderr."""
    path = os.pathsep.join([str(tmp_path / "bin"), str(BIN), os.environ["PATH"]])
    env = {name: value for name, value in bare().items() if not name.startswith(("PIP_", "UV_", "PIPX_", "PYTHON"))}
    env |= {
        "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "XDG_DATA_HOME": str(tmp_path / "data"),
        "XDG_BIN_HOME": str(tmp_path / "bin"), "PATH": path,
        "PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "bin"), "PIPX_MAN_DIR": str(tmp_path / "man"),
        "UV_PYTHON": sys.executable, "UV_PYTHON_DOWNLOADS": "never",
    }  # fmt: skip

    def runner(*words: str) -> str:
        done = subprocess.run(words, env=env, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    return runner


@pytest.mark.long
def test_uvx_runs_the_demo_and_leaves_nothing(run, wheels, tmp_path):
    index = ["--offline", "--no-index", "--find-links", str(wheels)]
    out = run(needs("uvx"), *index, "--from", "kafka-kgm[demo]", "kgm", "demo")
    assert out.count("the prediction held") == 2
    assert not (tmp_path / "bin").exists()


@pytest.mark.long
def test_uv_tool_installs_the_command(run, wheels, tmp_path):
    run(needs("uv"), "tool", "install", "--offline", "--no-index", "--find-links", str(wheels), "kafka-kgm")
    assert run(str(tmp_path / "bin" / "kgm"), "--version") == f"kgm {__version__}\n"
    assert run("kgm", "help", "--man", "list").startswith("KGM-LIST(1)")
    run(needs("uv"), "tool", "uninstall", "kafka-kgm")
    assert not (tmp_path / "bin" / "kgm").exists()


def test_pipx_installs_the_command_its_pages_and_an_extra(run, wheels, tmp_path):
    options = f"--no-index --find-links {wheels}"
    run(needs("pipx"), "install", f"--pip-args={options}", "kafka-kgm")
    assert run(str(tmp_path / "bin" / "kgm"), "--version") == f"kgm {__version__}\n"
    assert (tmp_path / "man" / "man1" / "kgm-list.1").is_file()
    assert shutil.which("kgm", path=str(tmp_path / "bin"))
    run(needs("pipx"), "inject", f"--pip-args={options}", "kafka-kgm", "kafka-kgm[demo]")
    assert '"confluent-kafka"' in run("kgm", "version", "-o", "json")
