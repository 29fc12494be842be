"""What Spark is started with: jars by the version of PySpark or out of a directory, and what is refused."""

from pathlib import Path

import pyspark
import pytest

from kgm.model.errors import UsageError
from kgm.pipeline import Source, SparkOptions, session

DELTA = Source.parse("delta:x")
PACKAGE = "io.delta:delta-spark_2.13:4.0.0"


@pytest.fixture(autouse=True)
def _nothing_given(monkeypatch):
    monkeypatch.delenv("KGM_SPARK_JARS", raising=False)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)


def settings(*sources, **given):
    return session._settings(SparkOptions(**given), sources)


@pytest.fixture(autouse=True)
def _version(monkeypatch):
    monkeypatch.setattr(pyspark, "__version__", "4.0.1")


def test_the_jar_is_of_the_version_that_is_installed(monkeypatch):
    found = settings(DELTA)
    assert found["spark.jars.packages"] == PACKAGE
    assert "spark.jars" not in found
    assert found["spark.sql.extensions"].startswith("io.delta")
    monkeypatch.setattr(pyspark, "__version__", "4.3.0")  # for which there is no Delta yet
    assert "spark.jars.packages" not in settings(DELTA)


def test_what_kgm_reads_itself_needs_no_jar():
    own = [Source.parse("segments:x"), Source.parse("kafka", {"bootstrap.servers": "b:1"})]
    assert not {"spark.jars", "spark.jars.packages"} & settings(*own).keys()


@pytest.mark.parametrize("how", ["option", "environment"])
def test_jars_of_a_directory_are_not_fetched(tmp_path, monkeypatch, how):
    for name in ("b.jar", "a.jar", "notes.txt"):
        (tmp_path / name).touch()
    if how == "environment":
        monkeypatch.setenv("KGM_SPARK_JARS", str(tmp_path))
    found = settings(DELTA, jars=tmp_path if how == "option" else None)
    assert found["spark.jars"] == f"{tmp_path / 'a.jar'},{tmp_path / 'b.jar'}"
    assert "spark.jars.packages" not in found


def test_a_directory_without_jars_says_what_is_wanted(tmp_path):
    with pytest.raises(UsageError, match="holds no jars") as caught:
        settings(DELTA, jars=tmp_path)
    assert PACKAGE in str(caught.value.hint)


def test_what_the_user_says_wins():
    found = settings(DELTA, conf={"spark.sql.session.timeZone": "CET", "spark.jars.packages": "a:b:1"})
    assert found["spark.sql.session.timeZone"] == "CET"
    assert found["spark.jars.packages"].split(",")[0] == "a:b:1"
    assert len(found["spark.jars.packages"].split(",")) == 2


@pytest.mark.parametrize(
    ("version", "runs"),
    [("3.5.6", False), ("4.0.0", True), ("4.1.1", True), ("4.2.0", False), ("4.2.1", True), ("4.3.0", True),
     ("5.0.0", False)],
)  # fmt: skip
def test_versions(monkeypatch, version, runs):
    monkeypatch.setattr(pyspark, "__version__", version)
    monkeypatch.setattr(session.shutil, "which", lambda _: "/usr/bin/java")
    if runs:
        session._check_installed()
    else:
        with pytest.raises(UsageError, match=f"PySpark {version} is installed; kgm supports PySpark 4.0 to"):
            session._check_installed()


def test_without_java(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="Java was not found in JAVA_HOME or PATH"):
        session._check_installed()


def test_kgm_is_packed_for_workers_that_lack_it():
    import zipfile

    with zipfile.ZipFile(session._zipped()) as archive:
        names = set(archive.namelist())
    assert {"kgm/__init__.py", "kgm/history/derive.py", "kgm/pipeline/segments.py"} <= names
    root = Path(session.__file__).parents[2]
    data = {
        path.relative_to(root).as_posix()
        for path in (root / "kgm").rglob("*")
        if path.is_file() and path.suffix not in {".py", ".pyc", ".pyi", ".typed"} and "__pycache__" not in path.parts
    }
    assert data <= names | {name for name in data if name.startswith("kgm/cli/")}, data - names
