"""`kgm.pyz`, made of the packages of this environment: nothing is fetched."""

from __future__ import annotations

import importlib.metadata
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from kgm.version import __version__
from tests import ROOT
from tests.cli.environment import bare
from tests.packaging.installed import required
from tools.zipapp.build import write

pytestmark = [pytest.mark.shows("zipapp"), pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def packages(tmp_path_factory) -> pathlib.Path:
    """What `pip install --target` would put there."""
    folder = tmp_path_factory.mktemp("packages")
    shutil.copytree(ROOT / "kgm", folder / "kgm", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "man", folder / "kgm/share/man")
    for name in required("kafka-kgm"):
        for file in importlib.metadata.files(name) or ():
            if file.parts[0] != ".." and "__pycache__" not in file.parts:
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file.locate(), folder / file)
    return folder


@pytest.fixture(scope="module")
def zipapp(packages, tmp_path_factory) -> pathlib.Path:
    file = tmp_path_factory.mktemp("zipapp") / "kgm.pyz"
    write(file, packages)
    return file


@pytest.fixture(scope="module")
def first_run(zipapp, tmp_path_factory) -> tuple[pathlib.Path, tuple[int, str, str]]:
    """The cache that the first run has filled and compiled, and how that ended."""
    folder = tmp_path_factory.mktemp("first") / "cache"
    return folder, run(zipapp, folder, "--version")


@pytest.fixture
def cache(first_run, tmp_path) -> pathlib.Path:
    """A copy of it."""
    return shutil.copytree(first_run[0], tmp_path / "cache")


def start(zipapp, cache, *words, python=sys.executable):
    env = bare() | {"KGM_ZIPAPP_CACHE": str(cache)}
    env.pop("PYTHONPATH", None)
    return subprocess.Popen(
        [python, "-I", "-S", str(zipapp), *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def run(zipapp, cache, *words) -> tuple[int, str, str]:
    process = start(zipapp, cache, *words)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def test_it_runs_with_python_alone(zipapp, first_run):
    """-I -S: without the environment, its packages and the user's."""
    cache, ended = first_run
    assert ended == (0, f"kgm {__version__}\n", "")
    (folder,) = cache.iterdir()
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    code, out, _ = run(zipapp, cache, "help", "--man", "list")
    assert (code, out[:11]) == (0, "KGM-LIST(1)")
    code, out, _ = run(zipapp, cache, "simulate-bounce", "--members", "2", "--topic", "t:4", "--all", "-o", "json")
    assert (code, '"moves": []' in out or '"moves":[]' in out) == (0, True)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


@pytest.mark.long
def test_what_no_package_was_installed_for_is_said_in_one_line(zipapp, cache, tmp_path):
    """The packages are those that kgm requires, without any extra."""
    code, out, err = run(zipapp, cache, "demo")
    assert (code, out) == (2, "")
    assert "kgm demo needs confluent-kafka, which is not installed" in err
    assert "hint: pip install 'kafka-kgm[demo]'" in err
    (folder,) = cache.iterdir()
    shutil.rmtree(folder / "re2")  # it has no wheel for musl
    for regex, expected in ((None, 0), ("t.*", 2)):
        snapshot = {
            "group_id": "g", "type": "consumer", "state": "Stable", "assignor": "uniform", "topics": [{"name": "t", "partitions": 2}],
            "members": [{"member_id": "m", "subscription": {"topics": ["t"], "regex": regex}, "assignment": {}}],
        }  # fmt: skip
        (tmp_path / "case.jsonl").write_text(json.dumps(snapshot) + "\n")
        code, out, err = run(zipapp, cache, "assign", "--from-file", str(tmp_path / "case.jsonl"))
        assert (code, "google-re2, which is not installed" in err) == (expected, regex is not None), err


@pytest.mark.long
def test_several_may_start_at_once(zipapp, tmp_path):
    cache = tmp_path / "cache"
    starts = [start(zipapp, cache, "--version") for _ in range(4)]
    results = [(*process.communicate(timeout=120), process.returncode) for process in starts]
    assert set(results) == {(f"kgm {__version__}\n", "", 0)}
    assert len(list(cache.iterdir())) == 1


@pytest.mark.long
def test_a_folder_that_others_may_write_to_is_not_run(zipapp, cache):
    (folder,) = cache.iterdir()
    folder.chmod(0o777)
    code, out, err = run(zipapp, cache, "--version")
    assert (code, out) == (1, "")
    assert "others may write to it" in err


def test_a_folder_that_cannot_be_made_is_named(zipapp, tmp_path):
    (tmp_path / "file").write_text("")
    code, out, err = run(zipapp, tmp_path / "file", "--version")
    assert (code, out) == (1, "")
    assert str(tmp_path / "file") in err
    assert "KGM_ZIPAPP_CACHE=DIR" in err


@pytest.mark.long
def test_the_same_packages_make_the_same_file(packages, zipapp, tmp_path):
    write(tmp_path / "again.pyz", packages)
    assert (tmp_path / "again.pyz").read_bytes() == zipapp.read_bytes()
    assert os.access(zipapp, os.X_OK)
