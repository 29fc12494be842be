"""Snapshots from a file or from stdin: what `kgm describe -o json` printed."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from kgm.client.failures import refuse_evidence_of_other_cluster
from kgm.model.errors import ErrorCode, KgmError, MissingFileError, NotFoundError, PartialError, UsageError
from kgm.model.snapshot import GroupSnapshot
from kgm.model.snapshot_json import DEMO_SCHEMA, snapshots_from_json

if TYPE_CHECKING:
    from kgm.cli.options.run_options import RunOptions
    from kgm.operations.bounce.group import BounceGroup

#: The outputs that have snapshots of groups.
_SCHEMAS = ("kgm.describe/v1", DEMO_SCHEMA)
_HINT = "kgm describe GROUP -o json > SNAPSHOT"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFile:
    """The groups in a file. cluster_id: of which cluster; None if the file does not say. errors: what could not be read
    when it was written; unseen: why there may have been other groups. taken_ms: when it was written, in ms since the
    epoch; None if the file does not say."""

    path: str
    snapshots: list[GroupSnapshot]
    cluster_id: str | None
    errors: tuple[KgmError, ...] = ()
    unseen: KgmError | None = None
    taken_ms: int | None = None

    def group(self, group_id: str) -> GroupSnapshot:
        """Raises NotFoundError if it is not in the file."""
        for snapshot in self.snapshots:
            if snapshot.group_id == group_id:
                return snapshot
        raise NotFoundError(f"the snapshot in file {self.path} has no group {group_id}", group_id=group_id)

    def refuse_at(self, cluster_id: str | None, hint: str | None = None) -> None:
        """Raises RefusedError if the groups are of a cluster other than this one."""
        refuse_evidence_of_other_cluster(f"file {self.path}", self.cluster_id, cluster_id, hint)


def read_snapshot_file(path: str) -> SnapshotFile:
    """The groups in a file: the whole output of `describe`, its data, a list of groups, or one group; `-` is stdin.

    Raises MissingFileError if the file does not exist, UsageError if it is not a snapshot."""
    document = data = _read_json(path)
    if isinstance(data, dict) and isinstance(data.get("data"), dict):
        data = data["data"]
    groups = data.get("groups", [data]) if isinstance(data, dict) else data
    if not isinstance(groups, list):
        raise UsageError(f"file {path} is not a snapshot", hint=_HINT)
    try:
        snapshots = snapshots_from_json(groups, _check_envelope(document))
        errors = _recorded_errors(document, path)
        _refuse_unread(errors, {snapshot.group_id for snapshot in snapshots})
    except UsageError as error:
        raise UsageError(f"file {path} is not a snapshot: {error.message}", hint=_HINT) from error
    return SnapshotFile(
        path=path, snapshots=snapshots, cluster_id=_cluster_id(document), errors=errors,
        unseen=_recorded_unseen(document, path), taken_ms=_taken_ms(document),
    )  # fmt: skip


def _cluster_id(document: Any) -> str | None:
    cluster = document.get("cluster") if isinstance(document, dict) else None
    cluster_id = cluster.get("id") if isinstance(cluster, dict) else None
    return cluster_id if isinstance(cluster_id, str) and cluster_id else None


def _taken_ms(document: Any) -> int | None:
    taken = document.get("generated_at") if isinstance(document, dict) else None
    try:
        at = datetime.fromisoformat(taken) if isinstance(taken, str) else None
    except ValueError:
        return None
    return None if at is None or at.tzinfo is None else round(at.timestamp() * 1000)


def _check_envelope(document: Any) -> str | None:
    """The schema, if the document says it. Raises UsageError for the output of another command, or of a version that
    kgm does not know."""
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema is not None and schema not in _SCHEMAS:
        raise UsageError(f"its schema is {schema!r}, not {_SCHEMAS[0]!r}")
    return schema


def _listed(document: Any, key: str) -> list[Any]:
    """A list of the envelope; empty if it has none."""
    found = document.get(key) if isinstance(document, dict) else None
    return found if isinstance(found, list) else []


def _recorded_errors(document: Any, path: str) -> tuple[KgmError, ...]:
    """What `errors` says could not be read."""
    errors = [one for one in _listed(document, "errors") if isinstance(one, dict)]
    return tuple(
        _incomplete(path, str(one.get("message")), one.get("group_id"), one.get("code"), _listed(one, "facts"))
        for one in errors
    )


def _recorded_unseen(document: Any, path: str) -> KgmError | None:
    """What `warnings` says of groups that the login could not see."""
    from kgm.operations.groups.selection import recorded_unseen

    text = recorded_unseen(one for one in _listed(document, "warnings") if isinstance(one, str))
    return None if text is None else _incomplete(path, text)


def _incomplete(path: str, text: str, group_id: Any = None, code: Any = None, facts: Collection[Any] = ()) -> KgmError:
    kafka_error = ErrorCode.__members__.get(code, ErrorCode.NONE) if isinstance(code, str) else ErrorCode.NONE
    return PartialError(
        f"the snapshot in file {path} is not complete: {text}", facts=tuple(map(str, facts)), kafka_error=kafka_error,
        group_id=group_id if isinstance(group_id, str) else None,
    )  # fmt: skip


def _refuse_unread(errors: Collection[KgmError], group_ids: Collection[str]) -> None:
    """Raises UsageError if one of these groups could not be read: `describe` then does not print it."""
    for error in errors:
        if error.group_id in group_ids:
            raise UsageError(f"its errors say that group {error.group_id} could not be read")


def _read_json(path: str) -> Any:
    from kgm.text.input_files import read_input_or_stdin

    try:
        return json.loads(read_input_or_stdin(path).decode("utf-8"))
    except FileNotFoundError:
        raise MissingFileError(f"file {path} does not exist") from None
    except OSError as error:
        raise UsageError(f"file {path} cannot be read: {error.strerror}") from error
    except RecursionError:
        raise UsageError(f"file {path} is not a snapshot: its JSON is nested too deeply", hint=_HINT) from None
    except ValueError as error:
        raise UsageError(f"file {path} is not JSON: {error}", hint=_HINT) from error


class DescribedGroup(NamedTuple):
    """A group to plan with. cluster: the `cluster` of the envelope, None for a file. cluster_id: of which cluster the
    group is, None if the file does not say."""

    group: BounceGroup
    cluster: dict[str, str | None] | None
    cluster_id: str | None


def described_group(group_id: str | None, from_file: str | None, common: RunOptions) -> DescribedGroup:
    """A live group or the group in a file. Raises what `read_snapshot_file` raises; KgmError."""
    from kgm.operations.bounce.group import BounceGroup, live_group, recorded_group
    from kgm.operations.bounce.sinks import with_live_sinks, with_recorded_sinks

    if from_file is not None:
        file = read_snapshot_file(from_file)
        group = recorded_group(file.snapshots, group_id, path=from_file)
        group = with_recorded_sinks(group, (BounceGroup(snapshot=one) for one in file.snapshots))
        return DescribedGroup(group, None, file.cluster_id)
    if group_id is None:
        raise UsageError("no group is given", hint="name a group, or give --from-file SNAPSHOT")
    from kgm.cli.output.failures import warn_of_unknown_offsets
    from kgm.cli.output.report import cluster_json

    with common.cluster(reads_only=True) as connected:
        live = with_live_sinks(connected, live_group(connected, group_id))
        warn_of_unknown_offsets(connected)
        return DescribedGroup(live, cluster_json(connected), connected.cluster_id)
