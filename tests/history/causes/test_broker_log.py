"""The words of a broker's log: each line that Kafka writes, and lines that somebody has made."""

import random
import time

import pytest

from kgm.history.causes.broker_log import parse
from kgm.history.causes.verdict import Cause
from kgm.model.errors import UsageError
from kgm.operations.history.source import History, HistorySource, open_history
from tests.cpu_time import allowed
from tests.history.causes import slow_broker_log
from tests.records.real_logs import DATA

AT = "[2026-11-21 04:03:24,639] INFO "
BEHIND = " (kafka.coordinator.group.GroupCoordinator)\n"
LEAVES = "has left group through explicit `LeaveGroup` request; client reason: "
#: GroupCoordinator and GroupMetadataManager, 3.x and 4.x.
LINES = [
    "[GroupCoordinator 1]: Preparing to rebalance group {g} in state Dead with old generation {n} (o-3) (reason: {reason})",
    "[GroupCoordinator id=1] Preparing to rebalance group {g} in state Stable with old generation {n} (reason: {reason}).",
    "[Group {g}] Member {m} " + LEAVES + "{words}",
    "[GroupId {g}] Bumped group epoch to {n} with metadata hash 17.",
    "[GroupId {g}] Dynamic member {m} " + LEAVES + "{words}",
    "[GroupId {g}] Static member {m} with instance id {i} " + LEAVES + "{words}",
    "[GroupId {g}] Member {m} fenced from the group because the member session expired.",
    "[GroupId {g}] Member {m} fenced from the group because it failed to transition from epoch 3 within 5000ms.",
    "[GroupId {g}] Member {m} left the consumer group.",
    "[GroupId {g}] Static member {m} with instance id {i} temporarily left the consumer group.",
    "[GroupId {g}] Static member {m} with instance id {i} left the consumer group.",
    "[GroupId {g}] Member {m} joins the consumer group using the consumer protocol.",
    "[GroupId {g}] Static member {m} with instance id {i} joins the consumer group using the consumer protocol.",
    "[GroupId {g}] Member {m} updated its subscribed topics to: [a, b].",
    "[GroupId {g}] Received updated regular expressions based on the context of member {m}: [a].",
    "[GroupId {g}] Computed a new target assignment for epoch {n}.",
    "nothing of ours",
]
REASONS = [
    "Adding new member {m} with group instance id {i}; client reason: {words}",
    "removing member {m} on heartbeat expiration",
    "explicit `LeaveGroup` request for ({m}, {o}) members",
    "Removal of member on pending sync request expiration",
    "will change because static member {m} with instance id {i} joined with change of protocol; client reason: {words}",
    "Updating metadata for static member {m} with instance id {i}; client reason: {words}",
    "Leader {m} re-joining group during Stable; client reason: {words}",
    "Updating metadata for member {m} during CompletingRebalance; client reason: {words}",
    "Downgrade from consumer to classic",
    "Freshly-loaded group g",
    "error when storing group assignment",
    "something new",
]
WORDS = [
    "not provided",
    "need to revoke partitions",
    "consumer poll timeout has expired.",
    "was removed by an admin",
    "",
]
NAMES = ["g", "a b", "a (b)", "x] y", "[Group", "in state", "(reason: q)", ") members", "é\u2028"]


def line(rng):
    values = {
        "g": rng.choice(NAMES), "m": rng.choice(["m-1", "m-2"]), "o": rng.choice(["m-2", "m-3"]), "i": rng.choice(NAMES),
        "n": rng.randrange(9), "words": rng.choice(WORDS),
    }  # fmt: skip
    values["reason"] = rng.choice(REASONS).format(**values)
    return AT + rng.choice(LINES).format(**values) + rng.choice([BEHIND, "\n", ""])


@pytest.mark.parametrize("seed", range(5))
def test_lines_mean_what_the_plain_expressions_say(seed):
    rng = random.Random(f"broker log {seed}")
    lines = [line(rng) for _ in range(2_000)]
    found = list(parse(lines))
    assert found == list(slow_broker_log.parse(lines))
    assert {each.cause for each in found} == {
        Cause.JOIN, Cause.LEAVE, Cause.SESSION_EXPIRY, Cause.SYNC_TIMEOUT, Cause.BOUNCE, Cause.CONVERSION,
        Cause.COORDINATOR, Cause.ROUNDS, Cause.REJOIN, Cause.COOPERATIVE, Cause.MAX_POLL, Cause.REMOVAL, Cause.METADATA,
        Cause.SUBSCRIPTION, Cause.UNKNOWN,
    }  # fmt: skip


@pytest.mark.few(6)
@pytest.mark.parametrize(
    "part",
    [
        "[Group ] Member ", "[GroupId ] Member ", "[GroupId x] Member x fenced  because ", "[GroupId ", "] Member ",
        "Preparing to rebalance group ", " in state a with old generation 1 (reason: ", " in state a with old generation 1 (",
        "Adding new member ", " with group instance id ", "Leader ", "request for (", LEAVES, "session expired", ")", " ",
        "static member ", " with instance id ", "[GroupId a] Static member b with instance id ", " because ", "9", "(", "x",
    ],
)  # fmt: skip
def test_the_time_for_a_line_grows_with_its_length(part):
    """A line of one part again and again, behind the beginning of each line that Kafka writes."""
    heads = [each.partition("{reason}")[0].partition("{words}")[0] for each in LINES]
    heads += [LINES[0].partition("{reason}")[0] + each.partition("{")[0] for each in REASONS]
    heads = [head.format(g="g", m="m", i="i", n=1) for head in heads]
    started = time.process_time()
    for head in heads:
        list(parse([head + part * (200_000 // len(part))]))
    assert time.process_time() - started < allowed(5)


def test_numbers_of_any_length_are_no_errors():
    lines = [each.format(g="g", m="m", i="i", n="9" * 5_000, words="", reason="x") + BEHIND for each in LINES]
    assert {each.generation for each in parse(lines)} <= {-1}


def reasons(path) -> int:
    history = open_history(f"segments:{DATA / 'plain'}", broker_logs=[path])
    assert isinstance(history, History)
    assert isinstance(history.source, HistorySource)
    return sum(row.source == "broker log" for row in history.rebalances("billing"))


@pytest.mark.long
def test_a_line_without_an_end_costs_no_memory_and_hides_no_other(tmp_path):
    prepared = AT + LINES[0].format(g="billing", n=3, reason="removing member m on heartbeat expiration") + BEHIND
    log = tmp_path / "server.log"
    log.write_text(prepared)
    assert reasons(log) == 1
    log.write_text("x" * (3 << 20) + prepared)
    assert reasons(log) == 0
    log.write_text("x" * (3 << 20) + "\n" + prepared)
    assert reasons(log) == 1


@pytest.mark.few(1)
@pytest.mark.parametrize("spoil", [lambda data: data[:-9], lambda data: data[:20] + b"\xff" * 8 + data[28:]])
def test_a_damaged_gzipped_log_is_an_error_that_names_it(tmp_path, spoil):
    import gzip

    log = tmp_path / "server.log.1.gz"
    rng = random.Random(1)
    log.write_bytes(spoil(gzip.compress("".join(line(rng) for _ in range(500)).encode())))
    with pytest.raises(UsageError, match=r"server.log.1.gz"):
        reasons(log)
