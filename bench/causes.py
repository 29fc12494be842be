#!/usr/bin/env python3
"""How often the history is right about why groups rebalanced: real clients on a real broker, driven at random.

usage: python bench/causes.py [--seeds N] [--first N] [--groups N] [--steps N] [--wrong] [--keep DIR]
       (needs Java 17+ and Maven)

Each seed is a broker of its own with so many groups (classic and consumer protocol, librdkafka and Java, static and
dynamic, range, roundrobin, cooperative-sticky and uniform; commits every 0.3, 1 or 5 s, or none), to each of which so
many things are done: members join, close, are killed, bounce within and outside the session timeout, subscribe to other
topics, are removed by an admin; a topic grows, a member asks for a rebalance, a member dies while another joins.
What was done is the truth. A verdict counts as right if it is what was done in its step. The other table grades the
same verdicts by what the broker's log says; `also`: the broker's cause is told as the second of several.
"""

import argparse
import pathlib
import sys
from collections import Counter, defaultdict

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

import pyarrow.parquet as pq

from kgm.history.causes.broker_log import grades, parse
from kgm.history.causes.session_timeouts import GivenSessions
from kgm.history.derive import derive
from kgm.history.row_tables import read_rows
from kgm.history.rows import RebalanceRow
from tests.history.truth.driven import SESSION_MS
from tests.history.truth.scores import Scores
from tests.history.truth.stories import play

#: What is no rebalance and no bounce, so that no verdict is due.
_OTHER = {"away", "converted", "group-removed"}


def rows_of(tables):
    rows = tables["gold_rebalance"].to_pylist()
    rows += [row | {"cause": row["event"], "also": []} for row in tables["gold_event"].to_pylist()]
    return sorted(
        (row for row in rows if row["cause"] not in _OTHER), key=lambda row: (row["partition"], row["offset"])
    )


def score(scores, rows, steps):
    """Returns the wrong ones, and the steps that are not told as what they were."""
    by_group, wrong, missed = defaultdict(list), [], []
    for row in rows:
        by_group[row["group_id"]].append(row)
    for step in steps:
        within = [row for row in by_group[step.group] if step.since <= row["timestamp"] <= step.until]
        told = {cause for row in within for cause in (row["cause"], *row["also"])}
        if step.told is not None:
            found = bool(told & step.allowed)
            scores.recall(step.told, found)
            if not found:
                missed.append((step, [(row["cause"], row["confidence"], row["evidence"]) for row in within]))
        for row in within:
            right = row["cause"] in step.allowed
            scores.verdict(row["cause"], row["confidence"], right)
            if not right:
                place = f"{row['partition']}:{row['offset']}"
                wrong.append((step, place, row["cause"], row["confidence"], row["also"], row["evidence"]))
    return wrong, missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--groups", type=int, default=12)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--wrong", action="store_true", help="print what was wrong or missed, with the evidence")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR", help="leave the raw records there")
    arguments = parser.parse_args()
    scores, told = Scores(), Counter()
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        raw, steps, log, failed = play(seed=seed, groups=arguments.groups, steps=arguments.steps)
        if arguments.keep is not None:
            arguments.keep.mkdir(parents=True, exist_ok=True)
            pq.write_table(raw, arguments.keep / f"{seed}.parquet")
        tables = derive(raw, session_of_group=GivenSessions(default_ms=SESSION_MS)).tables
        wrong, missed = score(scores, rows_of(tables), steps)
        for grade in grades(read_rows(RebalanceRow, tables["gold_rebalance"]), list(parse(log))):
            for what in ("right", "also", "wrong"):
                told[grade.cause, grade.confidence, what] += getattr(grade, what)
        print(
            f"seed {seed}: {len(raw):,} records, {len(steps)} steps; not played to the end: {failed or 'none'}",
            flush=True,
        )
        if arguments.wrong:
            for each in wrong:
                print("wrong ", *each)
            for each in missed:
                print("missed", *each)
    print("\nby what was done\n" + scores.table())
    print(f"\nby the broker's log\n{'verdict':24}{'confidence':12}{'right':>6}{'also':>6}{'wrong':>6}")
    for cause, confidence in sorted({key[:2] for key in told}):
        counts = (told[cause, confidence, what] for what in ("right", "also", "wrong"))
        print(f"{cause:24}{confidence:12}" + "".join(f"{count:6}" for count in counts))
    scores.check()


if __name__ == "__main__":
    main()
