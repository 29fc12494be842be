"""The words of a plan, of `simulate-bounce` and `rollout`, into values."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, TypeVar

from kgm.model.errors import UsageError

if TYPE_CHECKING:
    from kgm.simulation.plan.bounce_plan import Rolling

E = TypeVar("E", bound=enum.Enum)


def member_ids_of(texts: list[str] | None, option: str) -> tuple[str, ...]:
    """Ids in the order given, each once."""
    from kgm.text.braces import expand_list

    return tuple(dict.fromkeys(name for text in texts or () for name in expand_list(text, option)))


def rolling_of(
    *, rolling: bool, together: bool, max_unavailable: int | None, pause: str | None, order: str | None
) -> Rolling | None:
    from kgm.simulation.plan.bounce_plan import Rolling

    if rolling and together:
        raise UsageError("--rolling and --together exclude each other")
    if not rolling:
        if max_unavailable is not None or pause is not None or order is not None:
            raise UsageError("--max-unavailable, --pause and --order require --rolling")
        return None
    return Rolling(
        max_unavailable=1 if max_unavailable is None else max_unavailable, pause_ms=duration_of(pause, "--pause") or 0
    )


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
