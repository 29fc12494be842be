"""`kgm scale-in` on an embedded server: who goes, what is predicted, and lines that can be pasted."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys

import pytest

from kgm.cli.main import run
from kgm.cli.output.schema import schema_of
from kgm.coordinator.contract.settings import BrokerSettings
from kgm.server import serve_in_thread
from tests.client.joiners import form_group


@pytest.fixture(scope="module")
def server():
    settings = BrokerSettings(group_initial_rebalance_delay_ms=0)
    with serve_in_thread(topics={"orders": 6}, settings=settings) as running:
        yield running


@pytest.fixture
def scale_in(server, capsys):
    """Runs kgm on a group of these members: (exit code, stdout, stderr)."""
    made = []

    def scale_in(names, *words):
        group = f"pods-{os.urandom(4).hex()}"
        made.extend(form_group(server, group, names, "orders"))
        cluster = [] if "KAFKA_BOOTSTRAP_SERVERS" in os.environ else ["-b", server.bootstrap]
        code = run(["scale-in", group, *words, "--draws", "2", *cluster])
        captured = capsys.readouterr()
        return code, captured.out.replace(group, "GROUP"), captured.err.replace(group, "GROUP")

    yield scale_in
    for joiner in made:
        joiner.close()


def test_the_lines_can_be_pasted_and_name_the_same_cluster(scale_in, server):
    code, out, _ = scale_in(["app-0", "app-1", "app-2"], "--to", "1")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "GROUP  app to 1 replica: 2 of 3 members will be removed"
    assert [line.split()[0] for line in lines[1:4]] == ["POD", "app-2", "app-1"]
    assert "number 2 of app-2: it is the only number at the end of the name; the first replica is 0" in lines
    assert "kubectl scale statefulset/app --replicas=1 &&" in lines
    assert "kubectl wait --for=delete pod/app-2 pod/app-1 --timeout=5m &&" in lines
    (removal,) = [line for line in lines if line.startswith("kgm ")]
    words = shlex.split(removal)
    assert words[:2] == ["kgm", "remove-members"]
    assert words[words.index("-b") + 1] == server.bootstrap
    assert words[words.index("--instance-ids") + 1] == "app-{1..2}"
    assert not {"--assume-stopped", "--yes"} & set(words)


def test_the_removal_names_a_cluster_from_a_variable_that_only_reads_use(scale_in, server, monkeypatch):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", server.bootstrap)
    code, out, _ = scale_in(["app-0", "app-1"], "--to", "1")
    assert code == 0
    words = shlex.split(out.splitlines()[-1])
    assert words[:2] == ["kgm", "remove-members"]
    assert words[words.index("-b") + 1] == server.bootstrap


@pytest.mark.parametrize("fails", ["scale", "wait", None])
def test_a_line_runs_only_if_the_one_before_it_has_succeeded(scale_in, tmp_path, fails):
    """The lines are pasted into a shell, with stand-ins of both programs."""
    _, out, _ = scale_in(["app-0", "app-1"], "--to", "1")
    pasted = out.partition("\n\n")[2]
    for name in ("kubectl", "kgm"):
        tool = tmp_path / name
        tool.write_text(f'#!/bin/sh\necho "{name} $1" >> {tmp_path}/ran\n[ "$1" != "{fails}" ]\n')
        tool.chmod(0o755)
    subprocess.run(["/bin/sh", "-c", pasted], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=False, timeout=60)
    every = ["kubectl scale", "kubectl wait", "kgm remove-members"]
    ran = {"scale": every[:1], "wait": every[:2], None: every}[fails]
    assert (tmp_path / "ran").read_text().splitlines() == ran


def test_json_matches_its_schema(scale_in):
    import jsonschema

    code, out, _ = scale_in(["app-0", "app-1"], "--to", "1", "-o", "json")
    assert code == 0
    document = json.loads(out)
    jsonschema.validate(document, schema_of("scale-in"))
    data = document["data"]
    assert [one["pod"] for one in data["leaving"]] == ["app-1"]
    assert (data["first"], data["leaving"][0]["ordinal_because"]) == (0, "it is the only number at the end of the name")
    assert data["staying"] == ["app-0"]
    assert data["scenario"]["rebalances"] == 1
    assert data["scenario"]["final_assignment"] == {"app-0": {"orders": [0, 1, 2, 3, 4, 5]}}


def test_kubectl_is_asked_for_the_pods(scale_in, tmp_path):
    pods = {"items": [{"metadata": {"name": "web-0"}, "status": {"podIP": "127.0.0.1"}}]}
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f"#!{sys.executable} -SE\nprint({json.dumps(pods)!r})\n")
    kubectl.chmod(0o755)
    code, out, _ = scale_in(["first"], "--to", "0", "--kubernetes", "--kubectl", str(kubectl), "-o", "name")
    assert (code, out) == (0, "first\n")
    code, _, err = scale_in(["first"], "--to", "0")
    assert code == 6
    assert "first has no number at its end" in err


def fake_kubectl(tmp_path, *ordinals, stateful_set):
    """Lists these pods of `app`, and answers with this StatefulSet; None: it may not be read."""
    pods = {"items": [{"metadata": {"name": f"app-{n}"}, "status": {}} for n in ordinals]}
    (tmp_path / "pods").write_text(json.dumps(pods))
    answer = "echo 'Error: Forbidden' >&2; exit 1"
    if stateful_set is not None:
        (tmp_path / "statefulset").write_text(json.dumps(stateful_set))
        answer = f"cat {tmp_path}/statefulset"
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(
        f'#!/bin/sh\ncase "$1 $2" in "get pods") cat {tmp_path}/pods;; "get statefulset") {answer};; esac\n'
    )
    kubectl.chmod(0o755)
    return ["--kubernetes", "--kubectl", str(kubectl), "-o", "name"]


def test_pods_that_have_not_joined_are_replicas_and_are_told(scale_in, tmp_path):
    words = fake_kubectl(tmp_path, 0, 1, 2, stateful_set=None)
    code, out, err = scale_in(["app-1", "app-2"], "--to", "1", *words)
    assert (code, out.split()) == (0, ["app-2", "app-1"])
    assert err == (
        "warning: pods of StatefulSet app without a member in group 'GROUP': app-0; they count as replicas\n"
    )


def test_kubectl_is_asked_where_the_ordinals_begin(scale_in, tmp_path):
    words = fake_kubectl(tmp_path, 1, 2, stateful_set={"spec": {}})
    assert scale_in(["app-1", "app-2"], "--to", "1", *words) == (0, "app-2\napp-1\n", "")
    words = fake_kubectl(tmp_path, 1, 2, stateful_set={"spec": {"ordinals": {"start": 1}}})
    assert scale_in(["app-1", "app-2"], "--to", "1", *words) == (0, "app-2\n", "")
    words = fake_kubectl(tmp_path, 1, 2, stateful_set=None)
    code, out, err = scale_in(["app-1", "app-2"], "--to", "1", *words)
    assert (code, out) == (0, "app-2\n")
    assert "warning: where StatefulSet app begins is taken from the numbers of its pods: " in err
    assert "Error: Forbidden" in err


@pytest.mark.parametrize("words", [[], ["--to", "-1"], ["--to", "x"]])
def test_the_number_is_needed(scale_in, words):
    assert scale_in(["app-0"], *words)[0] == 2
