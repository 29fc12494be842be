"""`kgm version`: what is installed, as Python, pip and Kafka's schemas say it."""

import importlib.metadata
import json
import platform
import subprocess
import sys
import tomllib

from kgm.version import __version__
from tests import ROOT
from tests.cli.runner import kgm
from tests.kafka.jars import KAFKA_VERSION


def test_what_is_installed():
    run = kgm("version", "-o", "json")
    assert (run.code, run.err) == (0, "")
    data = json.loads(run.out)["data"]
    assert data["version"] == __version__
    assert data["python"] == {"version": platform.python_version(), "implementation": "CPython"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = project["optional-dependencies"]
    extras = {one["name"]: one for one in data["extras"]}
    assert extras.keys() == declared.keys() - {"dev", "long", "bench"}
    for name, one in extras.items():
        assert len(one["packages"]) == len(declared[name])
        for package in one["packages"]:
            assert any(line.startswith(package["name"]) for line in declared[name])
            assert package["version"] == _installed(package["name"])
        assert one["installed"] is all(package["version"] for package in one["packages"])
    # The library for Kerberos is built with a library of the system, so the environment of the tests may lack it.
    assert {name for name, one in extras.items() if not one["installed"]} <= {"kerberos"}


def _installed(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def test_the_versions_of_the_apis():
    data = json.loads(kgm("version", "-o", "json").out)["data"]
    assert data["protocol"]["kafka_release"] == KAFKA_VERSION
    apis = {one["name"]: one for one in data["protocol"]["apis"]}
    # LeaveGroupRequest.json of Kafka 4.3: "validVersions": "0-5"; ConsumerGroupHeartbeatRequest.json: "0-1".
    assert apis["LeaveGroup"] == {"name": "LeaveGroup", "key": 13, "min_version": 0, "max_version": 5}
    assert apis["ConsumerGroupHeartbeat"]["key"] == 68
    assert [one["key"] for one in data["protocol"]["apis"]] == sorted(one["key"] for one in apis.values())


def test_for_people():
    text = kgm("version").out
    assert f"kgm             {__version__}\n" in text
    assert "LeaveGroup" not in text
    assert "LeaveGroup " in kgm("version", "-o", "wide").out
    assert kgm("version", "-o", "name").out == f"{__version__}\n"


def test_packages_that_are_not_installed(tmp_path):
    """Without the site-packages of this environment but with what the command line needs."""
    for package in ("typer", "click", "kafka_kgm", "annotated_doc", "typing_extensions", "shellingham", "msgspec"):
        for path in importlib.metadata.distribution(package.replace("_", "-"))._path.parent.glob(f"{package}*"):
            (tmp_path / path.name).symlink_to(path)
    code = (
        f"import sys; sys.path[:] = [{str(ROOT)!r}, {str(tmp_path)!r}, *(p for p in sys.path if 'site-packages' not in p)];"
        "sys.argv[1:] = ['version', '-o', 'json']; from kgm.cli.entry import main; main()"
    )
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    extras = {one["name"]: one for one in json.loads(done.stdout)["data"]["extras"]}
    assert extras["spark"]["installed"] is False
    assert {one["version"] for one in extras["spark"]["packages"]} == {None}


def test_as_a_module():
    done = subprocess.run([sys.executable, "-m", "kgm", "--version"], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"kgm {__version__}\n", "")
