"""Rows of the history's tables as the JSON objects of the contract, and as the words of tables.

Times are RFC 3339 in UTC with milliseconds, in JSON and in tables alike, so that what one command prints can be given
to another's --since. An *identity* is a seat: the group_instance_id, or the member id of a dynamic member."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kgm.cli.output.report import Cell
from kgm.text.durations import show_duration
from kgm.text.wording import many

Row = Mapping[str, Any]
Json = dict[str, Any]
_MOST_WHO = 4
#: The source of a cause that a broker itself told.
_TOLD = "broker log"
#: The random end of a classic member id: eight of its digits tell members apart.
_UUID = re.compile(r"-([0-9a-f]{8})(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
#: What somebody did, in a sign; what is not in here is a way to go.
_SIGNS = {"joined": "+", "returned": "~", "replaced": "~", "took over": "=", "resubscribed": "*", "member": ""}


def at(ms: int | None) -> str | None:
    """`2026-11-21T03:00:00.000Z`; None for None, and for what no calendar has."""
    if ms is None:
        return None
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None


def rebalance_json(row: Row) -> Json:
    """One of `rebalances`."""
    inferred = None
    if row["inferred_cause"] is not None and row["source"] == _TOLD:
        inferred = {"cause": row["inferred_cause"], "confidence": row["inferred_confidence"]}
    return {
        "group_id": row["group_id"], "group_type": row["group_type"], "at": at(row["timestamp"]),
        "generation_before": row["from_generation"], "generation_after": row["to_generation"],
        "protocol": row["protocol"], "cause": row["cause"], "confidence": row["confidence"],
        "also": list(row["also"] or ()), "who": who_json(row["who"]), "evidence": list(row["evidence"] or ()),
        "source": row["source"], "reason": row["reason"], "inferred": inferred,
        "members_before": row["members_before"], "members_after": row["members_after"],
        "joined": row["joined"], "left": row["left"], "replaced": row["replaced"],
        "lost_rounds": row["lost_rounds"], "moved": row["moved"], "kept": row["kept"], "assigned": row["assigned"],
        "sync_ms": row["sync_ms"], "stopped_ms": _bounds(row["stopped_min_ms"], row["stopped_max_ms"]),
        "stopped_partition_ms": _bounds(row["stopped_partition_ms_min"], row["stopped_partition_ms_max"]),
        "unowned_ms": row["unowned_ms"], "complete": row["complete"], "record": record_json(row),
    }  # fmt: skip


def event_json(row: Row) -> Json:
    """One of `events`: what happened without a rebalance."""
    return {
        "group_id": row["group_id"], "group_type": row["group_type"], "at": at(row["timestamp"]),
        "generation": row["generation"], "event": row["event"], "confidence": row["confidence"],
        "who": who_json(row["who"]), "evidence": list(row["evidence"] or ()), "complete": row["complete"],
        "record": record_json(row),
    }  # fmt: skip


def record_json(row: Row) -> Json:
    """Where in `__consumer_offsets` it is written."""
    return {"partition": row["partition"], "offset": row["offset"]}


def who_json(who: Iterable[Row] | None) -> list[Json]:
    return [
        {
            "identity": each["seat"] or None, "what": each["what"], "member_id": each["member_id"],
            "client_id": each["client_id"], "client_host": each["client_host"],
        }
        for each in who or ()
    ]  # fmt: skip


def _bounds(least: int | None, most: int | None) -> Json:
    return {"min": least, "max": most}


# -- words


def short(identity: str | None) -> str:
    """A member id with as much of its random end as tells it apart; an instance id as it is."""
    return "?" if identity is None else _UUID.sub(r"-\1", identity)


def who_text(who: Sequence[Json], *, most: int = _MOST_WHO) -> str | None:
    """`+app-1 -app-2`: who came, went, came back (`~`), took over what others had given up before (`=`), or subscribes
    to something else (`*`)."""
    if not who:
        return None
    texts = [_SIGNS.get(each["what"] or "", "-") + short(each["identity"]) for each in who]
    rest = len(texts) - most
    return " ".join(texts[:most]) + (f" and {rest} more" if rest > 0 else "")


def why_text(rebalance: Json) -> str:
    """The cause in words, and what came with it."""
    said = [rebalance["cause"], *rebalance["also"]]
    return " + ".join(in_words(each) for each in said)


def in_words(name: str | None) -> str:
    """`session_expired` as people read it."""
    return "?" if name is None else name.replace("_", " ").replace("-", " ")


def sure_text(rebalance: Json) -> str:
    """How sure, and whether the broker itself says so."""
    told = f" ({_TOLD})" if rebalance["source"] == _TOLD else ""
    return f"{rebalance['confidence'] or '?'}{told}"


def between_text(bounds: Json) -> str | None:
    """`3ms-2.4s`, `>= 3ms`, `<= 2.4s`; None where nothing is known."""
    least, most = bounds["min"], bounds["max"]
    if least is None and most is None:
        return None
    if least is None:
        return f"<= {show_duration(most)}"
    if most is None:
        return f">= {show_duration(least)}"
    return show_duration(least) if least == most else f"{show_duration(least)}-{show_duration(most)}"


def stopped_text(rebalance: Json) -> str | None:
    """How long consumption stood still, as far as the log tells: of a classic group, of a consumer group the sum over
    partitions, which its records tell exactly."""
    if rebalance["group_type"] == "consumer":
        return None if rebalance["unowned_ms"] is None else f"{show_duration(rebalance['unowned_ms'])} in sum"
    return between_text(rebalance["stopped_ms"])


def moved_text(rebalance: Json) -> str | None:
    """Of those that had an owner before and after: how many have another one."""
    if rebalance["moved"] is None:
        return None
    return f"{rebalance['moved']}/{rebalance['moved'] + rebalance['kept']}"


def generation_text(rebalance: Json) -> str:
    lost = rebalance["lost_rounds"]
    rounds = f" ({many(lost, 'lost round')})" if lost else ""
    return f"{rebalance['generation_before']} -> {rebalance['generation_after']}{rounds}"


def rebalance_cells(rebalance: Json) -> list[Cell]:
    """The cells under REBALANCE_TITLES."""
    gap = "" if rebalance["complete"] else " ?"
    return [
        rebalance["at"], rebalance["group_id"], generation_text(rebalance) + gap, why_text(rebalance),
        sure_text(rebalance), who_text(rebalance["who"]), stopped_text(rebalance), moved_text(rebalance),
    ]  # fmt: skip


REBALANCE_TITLES = ("AT", "GROUP", "GENERATION", "WHY", "CONFIDENCE", "WHO", "STOPPED", "MOVED")
