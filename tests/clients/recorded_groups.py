"""Groups of client libraries as a broker describes them, built from the bytes that the libraries really sent."""

from __future__ import annotations

import json
import pathlib
from dataclasses import replace

from kgm.client.requests import GroupDescription
from kgm.client.snapshots import group_without_offsets, snapshot
from kgm.model.snapshot import GroupSnapshot, TopicSnapshot
from kgm.protocol.messages.describe_groups_response import DescribedGroup, DescribedGroupMember

RECORDED = json.loads((pathlib.Path(__file__).parent.parent / "data/client_bytes.json").read_text())
TOPICS = (TopicSnapshot(name="orders", partitions=12), TopicSnapshot(name="pay", partitions=5))


def recorded(library: str, assignor: str = "range", *, version: str | None = None) -> dict:
    """The recorded group of a library."""
    return next(
        group
        for group in RECORDED
        if (group["library"], group["assignor"]) == (library, assignor) and version in (None, group["version"])
    )


def described(
    library: str, assignor: str = "range", *, static: bool = True, client_id: str | None = None, **changes: object
) -> GroupSnapshot:
    """The group as a broker describes it, with its timeouts and generation. static: give members instance ids that they
    did not have when they were recorded, in the order of their ids. client_id: replaces the library's own."""
    group = recorded(library, assignor)
    rows = sorted(group["members"], key=lambda row: row["member_id"])
    members = [
        DescribedGroupMember(
            member_id=row["member_id"], group_instance_id=f"seat-{number}" if static else None, client_host="/10.0.0.1",
            client_id=client_id or row["client_id"], member_metadata=bytes.fromhex(row["subscription"]),
            member_assignment=bytes.fromhex(row["assignment"]),
        )
        for number, row in enumerate(rows)
    ]  # fmt: skip
    answer = DescribedGroup(
        group_id="g", group_state="Stable", protocol_type="consumer", protocol_data=assignor, members=members
    )
    found = snapshot(
        group_without_offsets("g", GroupDescription("classic", answer)), coordinator=None,
        topics={topic.name: topic for topic in TOPICS},
        committed={("orders", 0): 1}, session_timeout_ms=rows[0]["session_timeout_ms"],
    )  # fmt: skip
    return replace(found, rebalance_timeout_ms=rows[0]["rebalance_timeout_ms"], generation=2, **changes)
