"""What containers are made of: the Containerfile, and the manifests of docs/kubernetes.md."""

from __future__ import annotations

import re
import tomllib

import yaml

from tests import ROOT
from tests.cli.runner import kgm
from tests.docs.book import DOCS
from tests.kafka.broker import free_ports

PAGE = (DOCS / "kubernetes.md").read_text()
INSTRUCTION = re.compile(r"^([A-Z]+) (.+)$", re.MULTILINE)


def instructions():
    return INSTRUCTION.findall((ROOT / "Containerfile").read_text())


def test_the_image_runs_kgm_and_not_as_root():
    steps = instructions()
    last = [index for index, (name, _) in enumerate(steps) if name == "FROM"][-1]
    final = dict(steps[last:])
    uid, gid = map(int, final["USER"].split(":"))
    assert min(uid, gid) > 1_000
    assert final["ENTRYPOINT"] == '["/opt/kgm/bin/kgm"]'
    assert not [words for name, words in steps if name == "ADD" or "apt-get" in words]


def test_the_extras_that_the_image_installs_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    installed = {
        extra
        for _, words in instructions()
        for listed in re.findall(r"/src\[([\w,]+)\]", words)
        for extra in listed.split(",")
    }
    assert installed
    assert installed <= set(extras)


def test_the_manifests_are_yaml_and_the_job_is_a_command_line_of_kgm():
    documents = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)]
    (job,) = [one for one in documents if one.get("kind") == "Job"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    line = [word for word in container["args"] if not word.startswith(("--bootstrap-server=", "--command-config="))]
    run = kgm(*line, "-b", f"127.0.0.1:{free_ports(1)[0]}", "--timeout", "1s")
    assert run.code == 5, run.err  # 2 would be a word that kgm does not take
