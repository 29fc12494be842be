"""The parameters of a planned bounce on the command line, the same in every command that takes them.

The fields of `BounceRequest` define the parameters, their types and defaults. Their rows in `PLAN_OPTIONS` define how
they are typed. `@plan_options` adds the options to a command, which gets one `BounceRequest`."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, Final, TypeVar

import typer

from kgm.cli.options.broker_settings import parse_settings
from kgm.cli.options.shared_options import with_options
from kgm.cli.options.words import listed_ids
from kgm.clients.table import known_library
from kgm.model.broker_version import NEWEST, OLDEST, BrokerVersion
from kgm.model.errors import UsageError
from kgm.operations.bounce.gates import Gates
from kgm.operations.bounce.request import BounceRequest
from kgm.operations.bounce.units import UnitKind
from kgm.simulation.plan.bounce_plan import GroupProtocol, MemberOrder, Membership, Rolling, Stop, WhatIf
from kgm.text.braces import as_list
from kgm.text.durations import parse_duration, typed_duration

E = TypeVar("E", bound=enum.Enum)


def choice_of(kind: type[E], text: str, option: str) -> E:
    """The member of the enum with this value. Raises UsageError."""
    try:
        return kind(text)
    except ValueError:
        raise UsageError(f"{option}: {text!r} is not one of {', '.join(each.value for each in kind)}") from None


def duration_of(text: str | None, option: str) -> int | None:
    return None if text is None else parse_duration(text, option)


@dataclass(frozen=True, slots=True)
class _Kind:
    """How values of one type are typed. annotation: the type for typer. read: parses a value; raises a UsageError that
    names the option. show: the inverse of `read`, with one word for each time that the option is given."""

    metavar: str | None
    annotation: Any
    read: Callable[[Any, str], Any] = lambda given, _: given
    show: Callable[[Any], list[str]] = lambda value: [str(value)]


def _choice(kind: type[enum.Enum], metavar: str) -> _Kind:
    return _Kind(metavar, str, lambda text, option: choice_of(kind, text, option), lambda value: [value.value])


_FLAG: Final = _Kind(None, bool)
_COUNT: Final = _Kind("N", int)
_NAME: Final = _Kind("NAME", str)
_LIBRARY: Final = _Kind("NAME", str, lambda text, _: known_library(text))
_IDS: Final = _Kind(
    "ID[,ID...]", list[str], lambda texts, option: tuple(dict.fromkeys(listed_ids(texts, option))),
    lambda ids: [as_list(ids)],
)  # fmt: skip
_GLOBS: Final = _Kind("GLOB", list[str], lambda globs, _: tuple(globs), list)
_DURATION: Final = _Kind("DURATION", str, parse_duration, lambda ms: [typed_duration(ms)])
_SETTINGS: Final = _Kind(
    "BROKER.KEY=VALUE", list[str], lambda items, _: parse_settings(items),
    lambda settings: [f"{key}={value}" for key, value in settings.items()],
)  # fmt: skip
_VERSION: Final = _Kind("VERSION", str, lambda text, _: BrokerVersion.parse(text))


@dataclass(frozen=True, slots=True)
class PlanOption:
    """names: the long one first. has_default: whether it has the default of the field; otherwise, what happens without
    the option depends on other options."""

    kind: _Kind
    names: tuple[str, ...]
    help: str
    has_default: bool = True


def _row(kind: _Kind, *names: str, help: str, has_default: bool = True) -> PlanOption:  # noqa: A002  (as typer has it)
    return PlanOption(kind, names, help, has_default)


#: By field of `BounceRequest`, `WhatIf` or `Rolling`; `together` and `rolling` say whether there is a `Rolling`.
PLAN_OPTIONS: Final[Mapping[str, PlanOption]] = {
    "instance_ids": _row(_IDS, "--instance-ids", "-i", help="Members to bounce, by group instance id."),
    "member_ids": _row(_IDS, "--member-ids", "-m", help="Members to bounce, by member id."),
    "patterns": _row(_GLOBS, "--match-members", "--match", help="Members to bounce whose ids match; repeatable."),
    "everyone": _row(_FLAG, "--all", help="Bounce all members."),
    "together": _row(_FLAG, "--together", help="Bounce them all at the same time."),
    "rolling": _row(_FLAG, "--rolling", help="Bounce them in batches, one after another (the default)."),
    "max_unavailable": _row(
        _COUNT, "--max-unavailable", help="Maximum number of processes down at the same time (1).", has_default=False
    ),
    "unit": _row(
        _choice(UnitKind, "WHAT"), "--unit",
        help="auto | member | host | instance: which members are one process and stop together. auto: the threads "
        "of Kafka Streams; instance: ids that differ only in the number at the end.",
    ),
    "pause_ms": _row(
        _DURATION, "--pause", help="Wait before the next batch, once the group is stable again (0s).",
        has_default=False,
    ),
    "order": _row(
        _choice(MemberOrder, "ORDER"), "--order", has_default=False,
        help="id | host | client-id | partitions | leader-last: which members bounce first. Default: the order given;"
        " --all and --match-members by id, which is random for dynamic members.",
    ),
    "restart_time_ms": _row(_DURATION, "--restart-time", help="Time from a member's stop to its restart."),
    "stop": _row(
        _choice(Stop, "HOW"), "--stop",
        help="clean | leave | crash: how members stop. leave: they close, and leave the group also if they are static "
        "or threads of Kafka Streams.",
    ),
    "retry_every_ms": _row(
        _DURATION, "--retry-every", help="Time until a process that the group refused is started again (never).",
    ),
    "migrate": _row(_FLAG, "--migrate", help="Members of a classic group return with the consumer protocol."),
    "remove_first": _row(
        _FLAG, "--remove-first",
        help="Remove the members of each batch with one LeaveGroup request once they have stopped.",
    ),
    "scale_in": _row(_IDS, "--scale-in", help="Members that stop and stay away."),
    "scale_out": _row(_COUNT, "--scale-out", help="Number of new members that join."),
    "scale_out_every_ms": _row(_DURATION, "--scale-out-every", help="Time from one new member to the next (0s)."),
    "target_size": _row(
        _COUNT, "--target-size",
        help="Also simulate new members waiting until there are N, with others as spares. Not in Apache Kafka.",
    ),
    "pre_registered": _row(
        _IDS, "--pre-registered", help="Also simulate these instance ids waiting for each other. Not in Apache Kafka."
    ),
    "remove": _row(_IDS, "--remove", help="Members that stop and are then removed by one LeaveGroup request."),
    "session_timeout_ms": _row(
        _DURATION, "--session-timeout", help="Session timeout of the members, instead of the one that kgm reads."
    ),
    "rebalance_timeout_ms": _row(
        _DURATION, "--rebalance-timeout", help="Rebalance timeout of the members, instead of the one that kgm reads."
    ),
    "heartbeat_interval_ms": _row(
        _DURATION, "--heartbeat-interval", help="Heartbeat interval of the clients; usually 3s."
    ),
    "assignor": _row(_NAME, "--assignor", help="What if the group used this assignor."),
    "library": _row(
        _LIBRARY, "--library", help="The client library of all members, if kgm does not recognize it."
    ),
    "membership": _row(_choice(Membership, "KIND"), "--as", help="What if all members were static | dynamic."),
    "protocol": _row(
        _choice(GroupProtocol, "KIND"), "--protocol", help="What if the group used classic | consumer."
    ),
    "settings": _row(
        _SETTINGS, "--set",
        help="A broker setting, scheduled.rebalance.max.delay.ms of Connect workers, or of a Kafka Streams application "
        "num.standby.replicas, acceptable.recovery.lag, max.warmup.replicas, probing.rebalance.interval.ms, "
        "task.assignor.class, rack.aware.assignment.tags; repeatable.",
    ),
    "kafka_version": _row(
        _VERSION, "--kafka-version",
        help=f"Simulate brokers of this release, from {OLDEST} to {NEWEST}, or 3.9+new (with the new coordinator).",
    ),
}  # fmt: skip
#: The options of a bounce that can actually be run: all but the what-ifs.
STEP_OPTIONS: Final = (
    "instance_ids", "member_ids", "patterns", "everyone", "together", "rolling", "max_unavailable", "unit", "pause_ms",
    "order", "restart_time_ms", "stop", "retry_every_ms", "remove_first", "scale_in", "remove", "session_timeout_ms",
    "rebalance_timeout_ms", "heartbeat_interval_ms", "assignor", "library", "settings", "kafka_version",
)  # fmt: skip
_DEFAULTS: Final = {
    each.name: each.default_factory() if each.default_factory is not MISSING else each.default
    for kind in (Rolling, WhatIf, BounceRequest)
    for each in fields(kind)
}

# -- options that mean the same in several commands, but are not parameters of a bounce

FromFile = Annotated[
    str | None, typer.Option("--from-file", metavar="SNAPSHOT", help="Output of `kgm describe -o json`; - is stdin.")
]
Draws = Annotated[
    int, typer.Option("--draws", metavar="N", help="Number of random runs; extra runs cover rare outcomes.")
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="The same seed gives the same prediction.")]
ReportFile = Annotated[
    str | None,
    typer.Option("--report", metavar="FILE.html", help="Also write a page for a change ticket, as one HTML file."),
]


_GATE_OPTIONS: Final[dict[str, tuple[Any, None]]] = {
    "fail_if_moves": (
        Annotated[int | None, typer.Option(
            "--fail-if-moves", "--fail-if-handovers", metavar="N",
            help="Fail if there may be more than N handovers or moved partitions.",
        )], None,
    ),
    "fail_if_rebalances": (
        Annotated[int | None, typer.Option(
            "--fail-if-rebalances", metavar="N", help="Fail if there may be more than N rebalances.",
        )], None,
    ),
    "fail_if_stopped": (
        Annotated[str | None, typer.Option(
            "--fail-if-stopped", metavar="DURATION",
            help="Fail if partitions may be stopped for longer than this in total.",
        )], None,
    ),
}  # fmt: skip


def gate_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the limits for a prediction; the command takes `Gates` by keyword."""
    return with_options(command, Gates, _GATE_OPTIONS, _gates_of)


def _gates_of(words: Mapping[str, Any]) -> Gates:
    return Gates(
        handovers=words["fail_if_moves"],
        rebalances=words["fail_if_rebalances"],
        stopped_ms=duration_of(words["fail_if_stopped"], "--fail-if-stopped"),
    )


def plan_option(name: str) -> Any:
    """The option for one parameter, for a command that handles the value or its default in its own way."""
    row = PLAN_OPTIONS[name]
    return typer.Option(*row.names, metavar=row.kind.metavar, help=row.help)


def plan_options(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options of these parameters; the command takes a `BounceRequest` by keyword."""
    added = {name: (_annotation(name), _default(name)) for name in names}
    return lambda command: with_options(command, BounceRequest, added, request_of)


def _annotation(name: str) -> Any:
    annotation = PLAN_OPTIONS[name].kind.annotation
    is_optional = annotation is not bool and _default(name) is None
    return Annotated[annotation | None if is_optional else annotation, plan_option(name)]


def _default(name: str) -> Any:
    """The default that typer shows, and that the command gets without the option."""
    row = PLAN_OPTIONS[name]
    if row.kind is _FLAG:
        return False
    value = _DEFAULTS[name]
    return row.kind.show(value)[0] if row.has_default and value is not None and value not in ((), {}) else None


def request_of(words: Mapping[str, Any]) -> BounceRequest:
    """The request from option values. words: values by parameter, as typer read them. Unless the operator says
    otherwise, members that bounce do so in batches of one process, one after another; a command without `together`
    decides about batches itself.

    Raises UsageError for a value that is not valid, and for options that exclude each other."""
    given = {
        name: PLAN_OPTIONS[name].kind.read(word, PLAN_OPTIONS[name].names[0])
        for name, word in words.items()
        if word is not None
    }
    is_rolling, is_together = given.pop("rolling", False), given.pop("together", False)
    if is_rolling and is_together:
        raise UsageError("--rolling and --together exclude each other")
    bounces = any(given.get(name) for name in ("everyone", "instance_ids", "member_ids", "patterns"))
    batches, what_if = _taken(given, Rolling), _taken(given, WhatIf)
    is_ordered = bool(batches) or "order" in given
    if is_together and is_ordered:
        raise UsageError("--max-unavailable, --pause and --order exclude --together")
    is_rolling = "together" in words and not is_together and (is_rolling or is_ordered or bounces)
    return BounceRequest(**given, rolling=Rolling(**batches) if is_rolling else None, what_if=WhatIf(**what_if))


def _taken(given: dict[str, Any], kind: type[Rolling | WhatIf]) -> dict[str, Any]:
    return {each.name: given.pop(each.name) for each in fields(kind) if each.name in given}


def words_of(request: BounceRequest) -> list[str]:
    """The options that express this request, without those for batches, which are in `PlanShape.words`."""
    words: list[str] = []
    for name, row in PLAN_OPTIONS.items():
        if name in ("rolling", "together", "max_unavailable", "pause_ms", "order"):
            continue
        value = getattr(request, name) if hasattr(request, name) else getattr(request.what_if, name)
        if value == _DEFAULTS[name]:
            continue
        option = row.names[0]
        if row.kind is _FLAG:
            words.append(option)
            continue
        for word in row.kind.show(value):
            words += [f"{option}={word}"] if word.startswith("-") else [option, word]
    return words
