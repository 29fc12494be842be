"""Members and pods. `kubectl` is a program on the PATH, as for an operator."""

from __future__ import annotations

import json
import shlex
import sys
import time

import pytest

from kgm.client.transport.deadline import Deadline
from kgm.model.errors import RefusedError, TimedOutError, UsageError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.operations.kubernetes.pods import Kubectl
from kgm.operations.rollout.commands.template import CommandTemplate


def group(*members):
    return GroupSnapshot(group_id="g", type="classic", state="Stable", members=tuple(members))


def member(name, host="10.0.0.1", *, static=True):
    return MemberSnapshot(member_id=f"{name}-id", group_instance_id=name if static else None, client_host=host)


def pod(name, ip="10.9.9.9", *, deleted=False):
    metadata = {"name": name} | ({"deletionTimestamp": "2026-11-22T10:00:00Z"} if deleted else {})
    return {"metadata": metadata, "status": {} if ip is None else {"podIP": ip}}


@pytest.fixture
def kubectl(tmp_path):
    """A program that answers with these pods, and writes down its arguments."""

    def kubectl(*pods, code=0, text=None):
        answer = json.dumps({"items": list(pods)}) if text is None else text
        script = tmp_path / "kubectl"
        script.write_text(
            f"#!{sys.executable} -SE\nimport sys\nopen({str(tmp_path / 'asked')!r}, 'w').write(repr(sys.argv[1:]))\n"
            f"sys.stdout.write({answer!r})\nsys.stderr.write('no rights' if {code} else '')\nsys.exit({code})\n"
        )
        script.chmod(0o755)
        return str(script)

    return kubectl


def pods_of(command, members, identities, *, within_ms=30_000):
    return command.pods({}, Deadline.after(within_ms)).of_members(members, identities)


def test_a_pod_has_the_name_of_its_member_or_its_address(kubectl, tmp_path):
    command = Kubectl.of(
        f"{kubectl(pod('app-0'), pod('web-x', '10.0.0.7'), pod('web-y', None))} --context=c", namespace="shop", selector="app=x"
    )  # fmt: skip
    members = group(member("app-0"), member("dyn", "/10.0.0.7", static=False), member("other", "10.5.5.5"))
    assert pods_of(command, members, {"app-0", "dyn-id"}) == {"app-0": "app-0", "dyn-id": "web-x"}
    asked = (tmp_path / "asked").read_text()
    assert asked == "['--context=c', '--namespace=shop', 'get', 'pods', '--output=json', '--selector=app=x']"


@pytest.mark.parametrize(
    ("pods", "message"),
    [
        ([], "no pod has its name or its address 10.0.0.1"),
        ([pod("x", "10.0.0.1"), pod("y", "10.0.0.1")], "2 pods have its address 10.0.0.1: x, y"),
        ([pod("app-0", "10.0.0.1", deleted=True)], "no pod has its name"),
    ],
)
def test_a_member_whose_pod_is_not_certain_stops_everything(kubectl, pods, message):
    with pytest.raises(RefusedError, match=message):
        pods_of(Kubectl.of(kubectl(*pods)), group(member("app-0")), {"app-0"})


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"code": 1}, "ended with exit code 1"), ({"text": "no json"}, "is not a list of pods"),
        ({"text": '{"items": [{}]}'}, "is not a list of pods"), ({"text": "[1]"}, "is not a list of pods"),
    ],
)  # fmt: skip
def test_a_kubectl_that_does_not_answer_stops_everything(kubectl, more, message):
    with pytest.raises(RefusedError, match=message):
        pods_of(Kubectl.of(kubectl(**more)), group(member("app-0")), {"app-0"})
    with pytest.raises(RefusedError, match="no-such-kubectl"):
        pods_of(Kubectl.of("no-such-kubectl"), group(), set())


@pytest.mark.parametrize(
    ("spec", "first"), [({}, 0), ({"ordinals": {}}, 0), ({"ordinals": {"start": 5}}, 5), ({"ordinals": None}, 0)]
)
def test_where_a_stateful_set_begins(kubectl, tmp_path, spec, first):
    """Kubernetes: `.spec.ordinals.start`, 0 if it is not set."""
    script = kubectl(text=json.dumps({"kind": "StatefulSet", "spec": spec}))
    command = Kubectl.of(script, namespace="shop", selector="app=x")
    assert command.first_ordinal("app", {}, Deadline.after(30_000)) == first
    asked = (tmp_path / "asked").read_text()
    assert asked == "['--namespace=shop', 'get', 'statefulset', 'app', '--output=json']"


def test_what_is_no_stateful_set_does_not_say_where_it_begins(kubectl):
    with pytest.raises(RefusedError, match="is not a StatefulSet"):
        Kubectl.of(kubectl(pod("app-1"))).first_ordinal("app", {}, Deadline.after(30_000))


def test_a_kubectl_that_hangs_has_the_time_of_the_command(tmp_path):
    """Not a time of its own; and what is too late is exit code 5, as with a broker that hangs."""
    script = tmp_path / "kubectl"
    script.write_text("#!/bin/sh\nexec /bin/sleep 20\n")
    script.chmod(0o755)
    began = time.monotonic()
    with pytest.raises(TimedOutError, match=r"kubectl get pods --output=json did not end within .* 300ms") as timed_out:
        pods_of(Kubectl.of(str(script)), group(), set(), within_ms=300)
    assert time.monotonic() - began < 10
    assert (timed_out.value.exit_code, timed_out.value.hint) == (5, "allow more with --timeout")


def test_the_command_that_deletes_a_pod_is_a_template():
    command = Kubectl.of("kubectl --context='a {b}'", namespace="shop")
    text = command.delete_command(is_shell=False)
    template = CommandTemplate.parse(text, "--exec")
    assert template.words == ("kubectl", "--context=a {{b}}", "--namespace=shop", "delete", "pod", "{pod}")
    in_shell = command.delete_command(is_shell=True)
    assert shlex.split(in_shell) == ["kubectl", "--context=a {b}", "--namespace=shop", "delete", "pod", "$KGM_POD"]
    with pytest.raises(UsageError):
        Kubectl.of(" ")
