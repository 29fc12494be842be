"""What an operator asks for, and the plan that this means for a group."""

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from kgm.model.errors import NotFoundError
from kgm.model.snapshot import GroupSnapshot
from kgm.operations.bounce.group import BounceGroup
from kgm.simulation.plan.bounce_plan import Plan, PlanOptions, WhatIf, with_versions_of, without


@dataclass(frozen=True, slots=True, kw_only=True)
class BounceRequest(PlanOptions):
    """A bounce in the words of an operator: members by id, by pattern, or all of them.

    instance_ids, member_ids, patterns (globs on identities), everyone: the members that bounce. Ids in `scale_in` and
    `remove` are of either kind; these members do not bounce, even if a pattern or `everyone` includes them. scale_out:
    None: as many as there are pre-registered ids without a member."""

    instance_ids: tuple[str, ...] = ()
    member_ids: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    everyone: bool = False
    scale_in: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    scale_out: int | None = None
    pre_registered: tuple[str, ...] = ()


def plan_for(request: BounceRequest, group: BounceGroup) -> Plan:
    """The plan in terms of the group's members. Settings and version in the request precede those of the broker.

    Raises NotFoundError for a pattern that matches no member, UsageError for what `Plan` refuses."""
    snapshot = group.snapshot
    removed = _identities(request.remove, snapshot)
    scale_in = without(_identities(request.scale_in, snapshot), removed)
    scale_out = request.scale_out
    if scale_out is None:
        scale_out = len(without(request.pre_registered, [member.identity for member in snapshot.members]))
    options = {each.name: getattr(request, each.name) for each in fields(PlanOptions)}
    options["what_if"] = _what_if(request.what_if, group)
    options["settings"] = {**group.broker_settings, **request.settings}
    plan = Plan(
        bounce=_bouncing(request, snapshot, excluded=(*scale_in, *removed)),
        scale_in=scale_in,
        remove=removed,
        scale_out=scale_out,
        pre_registered=request.pre_registered,
        **options,
    )
    return with_versions_of(snapshot, plan)


def _what_if(what_if: WhatIf, group: BounceGroup) -> WhatIf:
    """What is really different from the group as it is."""
    if group.is_made_up:
        return replace(what_if, assignor=None, membership=None, protocol=None)
    if what_if.protocol is not None and what_if.protocol.value == group.snapshot.type:
        return replace(what_if, protocol=None)
    return what_if


def _bouncing(request: BounceRequest, snapshot: GroupSnapshot, *, excluded: Sequence[str]) -> tuple[str, ...]:
    """The identities of the members that bounce, in the order in which they were named."""
    chosen = [*_identities(request.instance_ids, snapshot), *_identities(request.member_ids, snapshot)]
    existing = sorted(member.identity for member in snapshot.members)
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
    """Identities in the order given, each once. The member id of a static member stands for its instance id; ids that
    the group does not have are left to `simulate` to refuse."""
    identity_of = {member.member_id: member.identity for member in snapshot.members}
    return tuple(dict.fromkeys(identity_of.get(one, one) for one in ids))
