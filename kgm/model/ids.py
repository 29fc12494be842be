"""Nominal ids, so that a member id is never passed where a group instance id is meant."""

from typing import NewType

GroupId = NewType("GroupId", str)
MemberId = NewType("MemberId", str)
#: `group.instance.id` (KIP-345): set by the operator, survives restarts.
InstanceId = NewType("InstanceId", str)
#: What a member is known by across restarts: its group instance id, or its member id when dynamic.
Identity = NewType("Identity", str)
#: Milliseconds, of a clock or as a span.
Millis = NewType("Millis", int)
