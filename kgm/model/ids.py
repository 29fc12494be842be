"""Typed ids, so that a member id is never passed for a group instance id."""

from __future__ import annotations

from typing import NewType

GroupId = NewType("GroupId", str)
MemberId = NewType("MemberId", str)
#: `group.instance.id` (KIP-345): set by the operator, the same after a restart.
InstanceId = NewType("InstanceId", str)
#: What identifies a member across restarts: its group instance id, or its member id if it is dynamic.
Identity = NewType("Identity", str)
#: Milliseconds, as a time or as a duration.
Millis = NewType("Millis", int)
