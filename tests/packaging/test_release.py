"""What goes out with a release: the list of components, the formula and the notes. Nothing is fetched."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import re
import subprocess
import sys

import pytest

from kgm.version import __version__
from tests import ROOT
from tests.needs import needs, needs_package
from tests.packaging.building import run
from tests.packaging.installed import required
from tools.release import homebrew, notes, sbom

pytestmark = pytest.mark.timeout(300)


@pytest.mark.long
@pytest.mark.slow
def test_the_list_of_components_has_what_the_wheel_needs_and_is_reproducible(dist, wheels, tmp_path, monkeypatch):
    needs_package("uv")
    needs_package("cyclonedx_py")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    command = [sys.executable, "-m", "tools.release.sbom", dist["wheel"], "-o", tmp_path / "listed.json"]
    run(*command, "--", "--no-index", "--find-links", wheels, cwd=ROOT)
    text = (tmp_path / "listed.json").read_text()
    python = sbom.install(tmp_path / "again", dist["wheel"], [], ["--no-index", "--find-links", str(wheels)])
    assert sbom.components(python, dist["wheel"], check=False) == text
    document = json.loads(text)
    main = document["metadata"]["component"]
    assert (document["bomFormat"], main["name"], main["version"]) == ("CycloneDX", "kafka-kgm", __version__)
    assert main["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(dist["wheel"].read_bytes()).hexdigest()}]
    listed = {one["name"].lower(): one for one in document["components"]}
    assert listed.keys() == required("kafka-kgm")
    for name, one in listed.items():
        assert one["version"] == importlib.metadata.version(name)
        assert one["purl"].startswith("pkg:pypi/")
        assert one["licenses"], name
    below = {
        one["ref"]: {ref.partition("==")[0].lower() for ref in one.get("dependsOn", ())}
        for one in document["dependencies"]
    }
    assert below[main["bom-ref"]] == {
        re.split(r"[<>=!]", line)[0] for line in importlib.metadata.requires("kafka-kgm") if "extra ==" not in line
    }


# -- the formula


def lock():
    """As uv writes it, of what is installed here."""
    packages = [{"name": "colorama", "version": "0.4.6", "marker": "sys_platform == 'win32'"}]
    for name in sorted(required("kafka-kgm", ["demo"]), reverse=True):
        distribution = importlib.metadata.distribution(name)
        tag = re.search(r"^Tag: (\S+)", distribution.read_text("WHEEL"), re.MULTILINE)[1]
        file = f"https://files.example/{name}-{distribution.version}"
        packages.append(
            {
                "name": name,
                "version": distribution.version,
                "sdist": {"url": f"{file}.tar.gz", "hashes": {"sha256": hashlib.sha256(name.encode()).hexdigest()}},
                "wheels": [{"url": f"{file}-{tag}.whl", "hashes": {}}],
            }
        )
    return {"packages": packages}


@pytest.fixture
def written():
    return homebrew.formula(
        lock(), url="https://files.example/kafka_kgm-1.tar.gz", sha256="0" * 64, homepage="https://h.example"
    )


RESOURCE = re.compile(r'^  resource "(.+)" do\n    url "(.+)"\n    sha256 "([0-9a-f]{64})"\n  end$', re.MULTILINE)


def test_the_formula_has_a_resource_for_each_distribution(written):
    resources = {name: (url, digest) for name, url, digest in RESOURCE.findall(written)}
    assert list(resources) == sorted(required("kafka-kgm", ["demo"]))  # colorama is for Windows only
    for name, (url, digest) in resources.items():
        assert url == f"https://files.example/{name}-{importlib.metadata.version(name)}.tar.gz"
        assert digest == hashlib.sha256(name.encode()).hexdigest()
    assert re.findall(r'^  (url|sha256) "(.+)"$', written, re.MULTILINE) == [
        ("url", "https://files.example/kafka_kgm-1.tar.gz"),
        ("sha256", "0" * 64),
    ]


def test_the_formula_builds_what_is_compiled_with_what_that_needs(written):
    assert re.findall(r'depends_on "(.+)" => :build', written) == ["pybind11", "rust"]
    assert re.findall(r'depends_on "(.+)"$', written, re.MULTILINE) == ["abseil", "librdkafka", "python@3.13", "re2"]
    compiled = {"name": "new", "version": "1", "wheels": [{"url": "new-1-cp313-cp313-macosx_11_0_arm64.whl"}]}
    with pytest.raises(SystemExit, match="new is compiled: say in BUILD_NEEDS what it is built with"):
        homebrew.formula({"packages": [compiled]}, url="", sha256="", homepage="")


def test_what_the_formula_installs_is_in_the_sdist_and_what_it_tests_works(written):
    for pattern in re.findall(r'install (?:Dir\[)?"([^"]+)"', written):
        assert list(ROOT.glob(pattern)), pattern
    line = re.search(r"kgm (simulate-bounce .+?)\"", written)[1]
    done = subprocess.run(
        [sys.executable.replace("python", "kgm"), *line.split()], capture_output=True, text=True, check=True
    )
    assert re.search(r'assert_match "(.+)", output', written)[1] in done.stdout


@pytest.mark.slow
def test_the_formula_is_ruby(written, tmp_path):
    (tmp_path / "kafka-kgm.rb").write_text(written)
    assert run(needs("ruby"), "-c", tmp_path / "kafka-kgm.rb", cwd=tmp_path) == "Syntax OK\n"


# -- the notes


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Three commits after a tag, and one before it."""

    def git(*words):
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run([needs("git"), *who, *words], cwd=tmp_path, check=True, capture_output=True)

    def commit(subject, **lines):
        for name, count in lines.items():
            path = tmp_path / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x\n" * count)
        git("add", "-A")
        git("commit", "-m", subject)

    git("init")
    commit("Begin", kgm__cli__a=1)
    git("tag", "v0.0.1")
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n\n## 9, not released yet\n\n- What is new.\n\n## 8\n\n- Old.\n")
    commit("Show <b>more</b>", kgm__cli__a=9, kgm__client__b=2, tests__c=99)
    commit("Find the leader", kgm__client__b=50, kgm__cli__a=10)
    commit("Test it", tests__c=100)
    monkeypatch.setattr(notes, "ROOT", tmp_path)
    return tmp_path


def test_the_notes_have_the_changelog_and_every_commit_since_the_tag(repository):
    text = notes.notes(notes.since_the_newest_tag())
    assert text.startswith(f"# kgm {__version__}\n\n- What is new.\n\n## Commits\n")
    parts = re.split(r"^### ", text, flags=re.MULTILINE)[1:]
    assert [part.split("\n\n")[0] for part in parts] == ["Command line", "Talking to clusters"]
    assert "<b>" not in text
    assert "- Find the leader\n" in parts[1]
    assert text.endswith("And 1 commit to tests, tools and documents.\n")
    assert "Begin" not in text
    assert "Begin" in notes.notes("HEAD")
