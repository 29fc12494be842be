"""Runs commands as a user of an installed kgm would, and builds it."""

from __future__ import annotations

import pathlib
import subprocess
import sys

from kgm.version import __version__
from tests.cli.environment import bare


def run(*words: str | pathlib.Path, cwd: pathlib.Path) -> str:
    """stdout of a command, which must succeed. PYTHONPATH is not set, so that nothing is imported from the checkout."""
    env = {name: value for name, value in bare().items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False, cwd=cwd, env=env, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built(source: pathlib.Path, folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """The sdist, and the wheel that is built from it."""
    folder.mkdir(exist_ok=True)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, source, cwd=folder)
    files = {"wheel" if path.suffix == ".whl" else "sdist": path for path in folder.iterdir()}
    assert {path.name for path in files.values()} == {
        f"kafka_kgm-{__version__}-py3-none-any.whl",
        f"kafka_kgm-{__version__}.tar.gz",
    }
    return files
