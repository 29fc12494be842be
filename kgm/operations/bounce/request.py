"""What an operator asks for, and the plan it translates to for a group."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from kgm.model.assignment import count
from kgm.model.errors import NotFoundError, RefusedError, UsageError
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.bounce.units import UnitKind, by_process_name, units_in, units_of_group, with_whole_units
from kgm.simulation.plan.bounce_plan import MemberOrder, Plan, PlanOptions, WhatIf, with_versions_of, without
from kgm.text.names import NaturalKey, in_order, natural

if TYPE_CHECKING:
    from kgm.operations.bounce.group import BounceGroup  # imports a client, which the command line does not need yet


@dataclass(frozen=True, slots=True, kw_only=True)
class BounceRequest(PlanOptions):
    """A bounce as an operator states it: members by id, by pattern, or all of them.

    instance_ids, member_ids, patterns (globs on identities), everyone: the members that bounce. With the order NAMED,
    members that a pattern or `everyone` selects are sorted by identity. `scale_in` and `remove` take ids of either
    kind; these members do not bounce, even if a pattern or `everyone` includes them. The name of a process
    (`by_process_name`) can be given in place of its members' ids. scale_out: None means the number of pre-registered
    ids without a member. unit: what stops together; if one member of a process stops, all its members do."""

    instance_ids: tuple[str, ...] = ()
    member_ids: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    everyone: bool = False
    scale_in: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    scale_out: int | None = None
    pre_registered: tuple[str, ...] = ()
    unit: UnitKind = UnitKind.AUTO


def plan_for(request: BounceRequest, group: BounceGroup) -> Plan:
    """The plan in terms of the group's members. Settings and version in the request override those of the broker.

    Raises NotFoundError for a pattern that matches no member, UsageError for what `Plan` refuses."""
    snapshot = group.snapshot
    processes = units_in(snapshot.members, request.unit)
    # If a process comes back without some of its threads, the others are named among those that bounce.
    back = _identities((*request.instance_ids, *request.member_ids), snapshot)
    removed = _whole(_identities(request.remove, snapshot), processes, back)
    scale_in = without(_whole(_identities(request.scale_in, snapshot), processes, back), removed)
    scale_out = request.scale_out
    if scale_out is None:
        scale_out = len(without(request.pre_registered, [member.identity for member in snapshot.members]))
    options = {each.name: getattr(request, each.name) for each in fields(PlanOptions)}
    options["what_if"] = _what_if(request.what_if, group)
    named = _bouncing(request, snapshot, excluded=(*scale_in, *removed))
    bouncing = _whole(named, processes, (*scale_in, *removed))
    if request.rolling is not None:
        bouncing = ordered(bouncing, snapshot, request.order)
        if request.order is MemberOrder.NAMED and (request.everyone or request.patterns):
            options["order"] = MemberOrder.ID
    plan = Plan(
        bounce=bouncing,
        scale_in=scale_in,
        remove=removed,
        scale_out=scale_out,
        pre_registered=request.pre_registered,
        units=units_of_group(snapshot, request.unit, (*bouncing, *scale_in, *removed)),
        **options,
    )
    return with_versions_of(snapshot, group.with_settings(plan))


def _whole(names: Sequence[str], units: Iterable[Sequence[str]], others: Sequence[str]) -> tuple[str, ...]:
    """The names, followed by the rest of their processes without `others`."""
    return (*names, *without(with_whole_units(names, units), (*names, *others)))


def ordered(identities: Sequence[str], snapshot: GroupSnapshot, order: MemberOrder) -> tuple[str, ...]:
    """The members in this order; identities that the group does not have come last.

    For LEADER_LAST, raises UsageError if the group has no leader, RefusedError if its leader is not known."""
    if order is MemberOrder.NAMED:
        return tuple(identities)
    members = {member.identity: member for member in snapshot.members}
    if order is MemberOrder.LEADER_LAST:
        _refuse_no_leader(snapshot)

    def place(identity: str) -> tuple[bool, NaturalKey, int, NaturalKey]:
        member, name = members.get(identity), natural(identity)
        if member is None:
            return True, natural(""), 0, name
        match order:
            case MemberOrder.HOST:
                return False, natural(member.client_host), 0, name
            case MemberOrder.CLIENT_ID:
                return False, natural(member.client_id), 0, name
            case MemberOrder.PARTITIONS:
                return False, natural(""), count(member.assignment), name
            case MemberOrder.LEADER_LAST:
                return False, natural(""), int(member.member_id == snapshot.leader), name
            case _:
                return False, natural(""), 0, name

    return tuple(sorted(identities, key=place))


def _refuse_no_leader(snapshot: GroupSnapshot) -> None:
    if snapshot.type != "classic":
        raise UsageError(f"group {snapshot.group_id} has no leader: its broker computes the assignment")
    if snapshot.leader is None or all(member.member_id != snapshot.leader for member in snapshot.members):
        raise RefusedError(
            f"the leader of group {snapshot.group_id} is not known",
            facts=("no Kafka API returns it; it is in the group's last record in __consumer_offsets",),
            hint="grant READ on Topic '__consumer_offsets', or choose another order: --order id|host|partitions",
            group_id=snapshot.group_id,
        )


def _what_if(what_if: WhatIf, group: BounceGroup) -> WhatIf:
    """The what-ifs that actually differ from the group as it is."""
    if group.is_made_up:
        return replace(what_if, assignor=None, membership=None, protocol=None)
    if what_if.protocol is not None and what_if.protocol.value == group.snapshot.type:
        return replace(what_if, protocol=None)
    return what_if


def _bouncing(request: BounceRequest, snapshot: GroupSnapshot, *, excluded: Sequence[str]) -> tuple[str, ...]:
    """The identities of the members that bounce, in the order in which they were named."""
    chosen = [*_identities(request.instance_ids, snapshot), *_identities(request.member_ids, snapshot)]
    existing = in_order(member.identity for member in snapshot.members)
    for pattern in request.patterns:
        matching = [name for name in existing if fnmatch.fnmatchcase(name, pattern)]
        if not matching:
            raise NotFoundError(
                f"no member of group {snapshot.group_id} matches {pattern}",
                facts=[f"members: {', '.join(existing)}"],
                group_id=snapshot.group_id,
            )
        chosen += matching
    if request.everyone:
        if not existing:
            raise NotFoundError(f"group {snapshot.group_id} has no members", group_id=snapshot.group_id)
        chosen += existing
    bouncing = tuple(dict.fromkeys(chosen))
    return without(bouncing, excluded) if request.everyone or request.patterns else bouncing


def _identities(ids: Sequence[str], snapshot: GroupSnapshot) -> tuple[str, ...]:
    """Identities in the order given, each once. The member id of a static member resolves to its instance id, the name
    of a process to all its members; ids that the group does not have are kept, and `simulate` refuses them."""
    named = by_process_name(snapshot.members) | {one.member_id: (one.identity,) for one in snapshot.members}
    named |= {one.identity: (one.identity,) for one in snapshot.members}
    return tuple(dict.fromkeys(identity for one in ids for identity in named.get(one, (one,))))
