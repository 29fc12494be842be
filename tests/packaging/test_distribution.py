"""The wheel and the sdist: built, checked, installed into an environment of their own, and used. Nothing is fetched."""

from __future__ import annotations

import json
import os
import pathlib
import sys
import sysconfig
import tarfile
import venv
import zipfile

import pytest

from kgm.version import __version__
from tests import ROOT
from tests.needs import needs_package
from tests.packaging.building import built, run

pytestmark = [pytest.mark.shows("wheel"), pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def environment(dist, tmp_path_factory) -> pathlib.Path:
    """A fresh environment with the wheel. Its dependencies are those of this one, which is behind it on the path."""
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    run(
        sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "-q", dist["wheel"],
        cwd=folder,
    )  # fmt: skip
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def test_twine_accepts_both(dist):
    needs_package("twine")
    out = run(sys.executable, "-m", "twine", "check", "--strict", *dist.values(), cwd=ROOT)
    assert out.count("PASSED") == 2


@pytest.mark.long
@pytest.mark.parametrize("epoch", [None, "1700000000"])
def test_the_sdist_is_complete_and_the_build_is_reproducible(dist, tmp_path, monkeypatch, epoch):
    """From the sdist, in another folder and with files of other ages, the same wheel and the same sdist are built, byte
    for byte; SOURCE_DATE_EPOCH is the date in them."""
    with tarfile.open(dist["sdist"]) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    if epoch is None:
        builds = [dist, built(source, tmp_path / "again")]
    else:
        monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
        builds = [built(ROOT, tmp_path / "first"), built(source, tmp_path / "again")]
        assert builds[0]["wheel"].read_bytes() != dist["wheel"].read_bytes()
    assert builds[0]["wheel"].read_bytes() == builds[1]["wheel"].read_bytes()
    assert builds[0]["sdist"].read_bytes() == builds[1]["sdist"].read_bytes()


def test_what_is_in_them(dist):
    wheel = set(zipfile.ZipFile(dist["wheel"]).namelist())
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "kgm").rglob("*.py")}
    assert {name for name in wheel if name.endswith(".py")} == modules
    pages = {f"kgm/share/man/{path.name}" for path in (ROOT / "man").iterdir()}
    scripts = {f"kgm/share/completions/{path.name}" for path in (ROOT / "completions").iterdir()}
    assert pages | scripts | {"kgm/py.typed"} <= wheel
    with tarfile.open(dist["sdist"]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "tools/generate_manual.py", "tests/conftest.py"} <= names
    assert [name for name in names if "__pycache__" in name or name.startswith((".venv", ".git/", "dist/"))] == []


def test_kgm_runs(environment, tmp_path):
    kgm = environment / "bin" / "kgm"
    assert run(kgm, "--version", cwd=tmp_path) == f"kgm {__version__}\n"
    data = json.loads(run(kgm, "version", "-o=json", cwd=tmp_path))["data"]
    assert data["version"] == __version__
    assert {"history", "spark"} <= {one["name"] for one in data["extras"]}
    imported = run(environment / "bin" / "python", "-c", "import kgm; print(kgm.__file__)", cwd=tmp_path)
    assert pathlib.Path(imported).is_relative_to(environment)


def test_completion_scripts_and_pages_are_found(environment, tmp_path):
    kgm = environment / "bin" / "kgm"
    for shell, name in (("bash", "kgm.bash"), ("zsh", "_kgm"), ("fish", "kgm.fish")):
        assert run(kgm, "completion", shell, cwd=tmp_path) == (ROOT / "completions" / name).read_text()
    assert run(kgm, "help", "--man", cwd=tmp_path).startswith("KGM(1)")
    assert run(kgm, "help", "--man", "history", "explain", cwd=tmp_path).startswith("KGM-HISTORY-EXPLAIN(1)")
    share = environment / "share"
    assert (share / "man/man1/kgm-list.1").read_text() == (ROOT / "man/kgm-list.1").read_text()
    assert (share / "bash-completion/completions/kgm").is_file()


def test_the_fixtures_can_be_imported_and_the_coordinator_runs(environment, tmp_path):
    (tmp_path / "test_of_an_application.py").write_text(
        "import kgm.testing\n\n\ndef test_it(kgm_coordinator):\n    assert kgm_coordinator.bootstrap\n"
    )
    run(environment / "bin" / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path, cwd=tmp_path)


def test_it_runs_from_a_zip_file(dist, tmp_path):
    """A wheel is a zip file: completion scripts and pages are found in it, too."""
    code = "import sys; sys.argv[1:] = {words!r}; from kgm.cli.entry import main; main()"
    for words, start in ((["completion", "bash"], "# bash completion"), (["help", "--man", "list"], "KGM-LIST(1)")):
        path = os.pathsep.join([str(dist["wheel"]), sysconfig.get_path("purelib")])
        line = f"import sys; sys.path[:0] = {path.split(os.pathsep)!r}; " + code.format(words=words)
        assert run(sys.executable, "-I", "-S", "-c", line, cwd=tmp_path).startswith(start)
