"""The words of a plan, which `simulate-bounce`, `rollout`, `plan` and others share, and what they mean as values."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Annotated, TypedDict, TypeVar

import typer

from kgm.model.errors import UsageError

if TYPE_CHECKING:
    from kgm.operations.bounce.units import UnitKind
    from kgm.simulation.plan.bounce_plan import Rolling

E = TypeVar("E", bound=enum.Enum)

# -- options that mean the same in each of these commands

GroupOption = Annotated[str | None, typer.Option("-g", "--group", metavar="GROUP", help="The group.")]
FromFile = Annotated[
    str | None, typer.Option("--from-file", metavar="SNAPSHOT", help="Output of `kgm describe -o json`; - is stdin.")
]
InstanceIds = Annotated[
    list[str] | None,
    typer.Option("--instance-ids", "-i", metavar="ID[,ID...]", help="Members that bounce, by group instance id."),
]
MemberIds = Annotated[
    list[str] | None,
    typer.Option("--member-ids", "-m", metavar="ID[,ID...]", help="Members that bounce, by member id."),
]
Match = Annotated[
    list[str] | None,
    typer.Option("--match-members", "--match", metavar="GLOB", help="Members that bounce: ids that match; repeatable."),
]
Everyone = Annotated[bool, typer.Option("--all", help="All members bounce.")]
Together = Annotated[bool, typer.Option("--together", help="All members at once.")]
RollingFlag = Annotated[bool, typer.Option("--rolling", help="In batches, one after another (the default).")]
MaxUnavailable = Annotated[int | None, typer.Option("--max-unavailable", metavar="N", help="Processes in a batch (1).")]
Unit = Annotated[
    str,
    typer.Option(
        "--unit",
        metavar="WHAT",
        help="auto | member | host | instance: which members are one process and restart together. auto: the threads "
        "of Kafka Streams; instance: ids that differ only in the number at their end.",
    ),
]
RestartTime = Annotated[
    str, typer.Option("--restart-time", metavar="DURATION", help="Time from the stop of a member to its start.")
]
StopHow = Annotated[str, typer.Option("--stop", metavar="HOW", help="clean | crash: how members stop.")]
ScaleIn = Annotated[
    list[str] | None, typer.Option("--scale-in", metavar="ID[,ID...]", help="Members that stop and stay away.")
]
Remove = Annotated[
    list[str] | None,
    typer.Option(
        "--remove", metavar="ID[,ID...]", help="Members that stop and are then removed by one LeaveGroup request."
    ),
]
HeartbeatInterval = Annotated[
    str | None,
    typer.Option("--heartbeat-interval", metavar="DURATION", help="Heartbeat interval of the clients; usually 3s."),
]
Library = Annotated[
    str | None,
    typer.Option("--library", metavar="NAME", help="The client library of all members, if kgm does not recognize it."),
]
Draws = Annotated[
    int,
    typer.Option("--draws", metavar="N", help="Number of random runs; extra runs cover rare outcomes."),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="The same seed gives the same prediction.")]


def member_ids_of(texts: list[str] | None, option: str) -> tuple[str, ...]:
    """Ids in the order given, each once."""
    from kgm.text.braces import expand_list

    return tuple(dict.fromkeys(name for text in texts or () for name in expand_list(text, option)))


class MembersOfPlan(TypedDict):
    """The fields of a `BounceRequest` that say which members."""

    instance_ids: tuple[str, ...]
    member_ids: tuple[str, ...]
    patterns: tuple[str, ...]
    everyone: bool
    scale_in: tuple[str, ...]
    remove: tuple[str, ...]


def members_of(
    instance_ids: list[str] | None, member_ids: list[str] | None, match: list[str] | None, *, everyone: bool,
    scale_in: list[str] | None, remove: list[str] | None,
) -> MembersOfPlan:  # fmt: skip
    """Raises UsageError for a list that is not valid."""
    return MembersOfPlan(
        instance_ids=member_ids_of(instance_ids, "--instance-ids"),
        member_ids=member_ids_of(member_ids, "--member-ids"),
        patterns=tuple(match or ()),
        everyone=everyone,
        scale_in=member_ids_of(scale_in, "--scale-in"),
        remove=member_ids_of(remove, "--remove"),
    )


def rolling_of(
    members: MembersOfPlan, *, rolling: bool, together: bool, max_unavailable: int | None, pause: str | None,
    order: str | None,
) -> Rolling | None:  # fmt: skip
    """Rolling, one member at a time, unless the operator says otherwise; None: all together, or no member bounces.

    Raises UsageError for words that exclude each other."""
    from kgm.simulation.plan.bounce_plan import Rolling

    if rolling and together:
        raise UsageError("--rolling and --together exclude each other")
    bounces = members["everyone"] or members["instance_ids"] or members["member_ids"] or members["patterns"]
    is_ordered = max_unavailable is not None or pause is not None or order is not None
    if together and is_ordered:
        raise UsageError("--max-unavailable, --pause and --order exclude --together")
    if together or not (rolling or is_ordered or bounces):
        return None
    return Rolling(
        max_unavailable=1 if max_unavailable is None else max_unavailable, pause_ms=duration_of(pause, "--pause") or 0
    )


def unit_of(text: str) -> UnitKind:
    """Raises UsageError."""
    from kgm.operations.bounce.units import UnitKind

    return choice_of(UnitKind, text, "--unit") or UnitKind.AUTO


def choice_of(kind: type[E], text: str | None, option: str) -> E | None:
    if text is None:
        return None
    try:
        return kind(text)
    except ValueError:
        raise UsageError(f"{option}: {text!r} is not one of {', '.join(each.value for each in kind)}") from None


def duration_of(text: str | None, option: str) -> int | None:
    from kgm.text.durations import parse_duration

    return None if text is None else parse_duration(text, option)
