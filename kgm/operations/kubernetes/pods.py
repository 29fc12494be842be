"""Members of a group and the pods in which they run.

A member belongs to the pod that is named after its instance id; otherwise to the only pod with its address. If neither
is conclusive, nothing is done: restarting the wrong pod would be worse than restarting none."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kgm.client.transport.deadline import Deadline
from kgm.model.errors import RefusedError, TimedOutError, UsageError
from kgm.model.snapshot import GroupSnapshot, MemberSnapshot
from kgm.operations.kubernetes.ordinals import NumberedPod
from kgm.text.durations import show_duration
from kgm.text.shell import shell_line

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod. ip: None until it has one. Pods on the host network share the address of their node. is_deleted: it is
    being deleted; a StatefulSet then starts one of the same name, unless it is scaled in."""

    name: str
    ip: str | None
    is_deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPods:
    """The pods that kubectl has listed."""

    pods: tuple[Pod, ...]

    def of_members(self, group: GroupSnapshot, identities: Collection[str]) -> dict[str, str]:
        """The name of each member's pod, by identity. Raises RefusedError if it is not certain which pod a member runs
        in."""
        running = [pod for pod in self.pods if not pod.is_deleted]
        return {
            member.identity: _pod_of(member, running, group.group_id).name
            for member in group.members
            if member.identity in identities
        }

    def of_stateful_set(self, name: str) -> dict[int, str]:
        """The names of its pods, by ordinal, with those that are being deleted."""
        numbered = {pod.name: NumberedPod.of(pod.name) for pod in self.pods}
        return {
            one.ordinal: pod for pod, one in sorted(numbered.items()) if one is not None and one.stateful_set == name
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubectl:
    """The kubectl command, with the options that name the cluster and the namespace. Create one with `of`."""

    words: tuple[str, ...]
    selector: str | None = None

    @classmethod
    def of(cls, command: str, *, namespace: str | None = None, selector: str | None = None) -> Kubectl:
        """Raises UsageError for a command that cannot be split into words."""
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"--kubectl: {command!r} cannot be split into words: {error}") from None
        if not words:
            raise UsageError("--kubectl: the command is empty")
        options = () if namespace is None else (f"--namespace={namespace}",)
        return cls(words=(*words, *options), selector=selector)

    def delete_command(self, *, is_shell: bool) -> str:
        """A template for `--exec` that restarts a pod by deleting it, so that its controller starts it again."""
        words = [word.replace("{", "{{").replace("}", "}}") for word in self.words] if not is_shell else [*self.words]
        pod = '"$KGM_POD"' if is_shell else "{pod}"
        return f"{shell_line([*words, 'delete', 'pod'])} {pod}"

    def pods(self, environment: Mapping[str, str], deadline: Deadline) -> ListedPods:
        """The pods that the options name. Raises RefusedError if kubectl fails, and TimedOutError."""
        selector = [] if self.selector is None else [f"--selector={self.selector}"]
        return self._get(["pods", "--output=json", *selector], _parsed_pods, "a list of pods", environment, deadline)

    def first_ordinal(self, stateful_set: str, environment: Mapping[str, str], deadline: Deadline) -> int:
        """The ordinal of the first pod of a StatefulSet. Raises RefusedError if kubectl fails, and TimedOutError."""
        words = ["statefulset", stateful_set, "--output=json"]
        return self._get(words, _parsed_first, "a StatefulSet", environment, deadline)

    def _get(
        self, options: Sequence[str], parse: Callable[[Any], T], what: str, environment: Mapping[str, str],
        deadline: Deadline,
    ) -> T:  # fmt: skip
        words = [*self.words, "get", *options]
        try:
            done = subprocess.run(  # noqa: S603  (the operator's command)
                words, capture_output=True, text=True, timeout=deadline.remaining(), check=False,
                stdin=subprocess.DEVNULL, env=dict(environment),
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise TimedOutError(
                f"nothing was done: {shell_line(words)} did not end within the time limit of "
                f"{show_duration(deadline.budget_ms)}",
                hint="allow more with --timeout",
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise RefusedError(f"nothing was done: {words[0]}: {error}") from None
        if done.returncode:
            raise RefusedError(
                f"nothing was done: {shell_line(words)} ended with exit code {done.returncode}",
                facts=done.stderr.strip().splitlines()[-3:],
            )
        try:
            return parse(json.loads(done.stdout))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise RefusedError(
                f"nothing was done: the output of {shell_line(words)} is not {what}: {type(error).__name__}"
            ) from None


def _parsed_pods(document: Any) -> ListedPods:
    """Raises KeyError and similar errors for a document of another kind."""
    pods = []
    for item in document["items"]:
        ip = item.get("status", {}).get("podIP")
        pods.append(
            Pod(
                name=str(item["metadata"]["name"]),
                ip=None if ip is None else str(ip),
                is_deleted=item["metadata"].get("deletionTimestamp") is not None,
            )
        )
    return ListedPods(pods=tuple(pods))


def _parsed_first(document: Any) -> int:
    """Raises KeyError and similar errors for a document of another kind."""
    return int((document["spec"].get("ordinals") or {}).get("start", 0))


def _pod_of(member: MemberSnapshot, pods: Sequence[Pod], group_id: str) -> Pod:
    named = [pod for pod in pods if pod.name == member.group_instance_id]
    if named:
        return named[0]
    address = member.client_host.removeprefix("/")
    there = [pod for pod in pods if pod.ip is not None and pod.ip == address]
    if len(there) == 1:
        return there[0]
    found = f"{len(there)} pods have its address {address}: {', '.join(pod.name for pod in there)}"
    if not there:
        found = f"no pod has its name or its address {address}"
    raise RefusedError(
        f"nothing was done: it is not certain in which pod member {member.identity} runs: {found}",
        hint="use the name of the pod as group.instance.id, or check --namespace and --selector",
        group_id=group_id,
    )
