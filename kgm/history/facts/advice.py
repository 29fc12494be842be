"""Which session timeout the restarts of a group ask for (a row of `gold_timeout_advice`), and what it costs.

A static member that is back before its session expires costs no rebalance (KIP-345). So the advice is what nearly all
restarts that were seen would have fitted in, with a margin; the price is that a member that really died is noticed
later by the same time. Absences are known as at most so long (`restarts`), which errs on the safe side."""

from collections.abc import Sequence
from math import ceil

from kgm.history.rows import Row

#: Below so many restarts a p99 says nothing.
LEAST_RESTARTS = 20
_MARGIN = 1.5
_HEARTBEAT_MS = 3_000
#: What brokers allow by default: group.max.session.timeout.ms, group.consumer.max.session.timeout.ms and their minima.
_BOUNDS = {"classic": (6_000, 1_800_000), "consumer": (45_000, 60_000)}
#: A change by less than this part is not worth it.
_WORTH_IT = 0.1


def advice(base: Row, timestamp: int, now_ms: int, absences: Sequence[Sequence[int]]) -> Row:
    """base: partition, group_id and group_type. now_ms: the session timeout that the members have. absences: of each
    restart [at most so many ms, absorbed, static]."""
    lengths = sorted(each[0] for each in absences)
    row = {**base, "timestamp": timestamp, "now_ms": now_ms, "restarts": len(lengths)}
    if lengths:
        row |= {f"p{part}_ms": _percentile(lengths, part) for part in (50, 95, 99)} | {"max_ms": lengths[-1]}
    if len(lengths) < LEAST_RESTARTS:
        line = f"not enough data: {len(lengths)} restarts, {LEAST_RESTARTS} are needed"
        return row | {"verdict": "not enough data", "advice": line}
    least, most = _BOUNDS[base["group_type"]]
    wanted = ceil(max(row["p99_ms"] * _MARGIN, 3 * _HEARTBEAT_MS, least) / 1_000) * 1_000
    advised = min(wanted, most)
    saved = 2 * sum(1 for ms, absorbed, static in absences if static and not absorbed and ms <= advised)
    verdict = "keep"
    if abs(advised - now_ms) > now_ms * _WORTH_IT:
        verdict = "raise" if advised > now_ms else "lower"
    static = sum(each[2] for each in absences)
    row |= {
        "advised_ms": advised, "saved": saved if verdict == "raise" else 0, "extra_stall_ms": advised - now_ms,
        "within_broker_max": wanted <= most, "verdict": verdict,
    }  # fmt: skip
    return row | {"advice": _said(row, wanted, static)}


def _said(row: Row, wanted: int, static: int) -> str:
    now, advised = row["now_ms"], row["advised_ms"]
    lines = [f"99 of 100 restarts took at most {_s(row['p99_ms'])} s"]
    match row["verdict"]:
        case "raise":
            lines.append(f"with {_s(advised)} s instead of {_s(now)} s {row['saved']} rebalances had not happened")
            lines.append(f"a member that dies is noticed {_s(advised - now)} s later")
        case "lower":
            lines.append(f"{_s(advised)} s are enough; a member that dies is noticed {_s(now - advised)} s sooner")
        case _:
            lines.append(f"{_s(now)} s fit")
    if wanted > advised:
        lines.append(f"{_s(wanted)} s would be needed, and brokers allow {_s(advised)} s by default")
    if 2 * static < row["restarts"]:
        lines.append(
            "most members have no group instance id: without one each restart rebalances, whatever the timeout"
        )
    return "; ".join(lines)


def _percentile(ordered: Sequence[int], part: int) -> int:
    """The smallest value that so many of a hundred do not exceed."""
    return ordered[max(ceil(len(ordered) * part / 100) - 1, 0)]


def _s(ms: int) -> str:
    return f"{ms / 1_000:.1f}".removesuffix(".0")
