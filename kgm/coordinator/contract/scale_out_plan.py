"""The planned size and instance ids of a group.

Apache Kafka does not have this: KIP-345 lists it as future work (pre-registration, `target.group.size`). The names are
kgm's own, and nothing is planned unless set. Settings are per group:

    kgm.group.target.size.GROUP = 7
    kgm.group.pre.registered.instance.ids.GROUP = app-1,app-2,app-3

GROUP is a group id or a glob; without GROUP and its dot, a setting applies to all groups. A group id takes precedence
over a glob, and an earlier glob over a later one. The rules for a planned group are in `classic.standby`."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeVar

from kgm.model.errors import UsageError

T = TypeVar("T")

TARGET_SIZE = "kgm.group.target.size"
INSTANCE_IDS = "kgm.group.pre.registered.instance.ids"
_EVERY_GROUP = "*"
#: The instance ids that clients allow (Kafka: JoinGroupRequest.validateGroupInstanceId). Brokers do not check them.
_LEGAL_ID = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_INT32 = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """The plan for one group. target_size: the number of members that it should have; None: not planned.

    instance_ids: group instance ids for which places are reserved."""

    target_size: int | None = None
    instance_ids: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlans:
    """All plans, by pattern of group ids, in the order given. False if there are none."""

    target_sizes: tuple[tuple[str, int], ...] = ()
    instance_ids: tuple[tuple[str, frozenset[str]], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.target_sizes or self.instance_ids)

    def of(self, group_id: str) -> GroupPlan | None:
        """The plan for a group; None if there is none. Then the group behaves as in Apache Kafka."""
        if not self:
            return None
        target_size = _find(self.target_sizes, group_id)
        instance_ids = _find(self.instance_ids, group_id)
        if target_size is None and instance_ids is None:
            return None
        return GroupPlan(target_size=target_size, instance_ids=instance_ids or frozenset())


NO_PLANS = GroupPlans()


def is_plan(name: str) -> bool:
    """Whether a setting belongs to a plan, by its name."""
    return any(name == kind or name.startswith(f"{kind}.") for kind in (TARGET_SIZE, INSTANCE_IDS))


def plans_from(settings: Iterable[tuple[str, str | int]]) -> GroupPlans:
    """Plans from settings for which `is_plan` holds. Raises UsageError for a value that is not valid."""
    target_sizes: list[tuple[str, int]] = []
    instance_ids: list[tuple[str, frozenset[str]]] = []
    for name, value in settings:
        kind = TARGET_SIZE if name.startswith(TARGET_SIZE) else INSTANCE_IDS
        pattern = name.removeprefix(kind).removeprefix(".") or _EVERY_GROUP
        if kind == TARGET_SIZE:
            target_sizes.append((pattern, _size(name, value)))
        else:
            instance_ids.append((pattern, _ids(name, value)))
    return GroupPlans(target_sizes=tuple(target_sizes), instance_ids=tuple(instance_ids))


def _find(rows: Iterable[tuple[str, T]], group_id: str) -> T | None:
    rows = tuple(rows)
    exact = (value for pattern, value in rows if pattern == group_id)
    matching = (value for pattern, value in rows if fnmatchcase(group_id, pattern))
    return next(exact, next(matching, None))


def _size(name: str, value: str | int) -> int:
    try:
        size = int(value)
    except ValueError:
        raise UsageError(f"setting {name} is not a whole number: {value!r}") from None
    if not 1 <= size <= _INT32:
        raise UsageError(f"setting {name} is out of range: {value}", facts=("lowest: 1",))
    return size


def _ids(name: str, value: str | int) -> frozenset[str]:
    ids = [part.strip() for part in str(value).split(",")]
    if not all(ids):
        raise UsageError(f"setting {name} has an empty instance id: {value!r}", hint="write a,b,c")
    illegal = [each for each in ids if not _LEGAL_ID.fullmatch(each) or each in (".", "..")]
    if illegal:
        raise UsageError(
            f"setting {name}: {illegal[0]!r} is not a valid group.instance.id",
            facts=("clients allow letters, digits, '.', '_' and '-', and at most 249 characters",),
        )
    return frozenset(ids)
