#!/usr/bin/env python3
"""How often the history is right about why groups rebalanced: real clients on real brokers, with random actions.

usage: python bench/causes.py [--seed N] [--versions V,V] [--groups N] [--seconds N] [--wrong] [--keep DIR | --from DIR]
       (needs Java 17+ and Maven)

Each version gets its own broker with --groups groups, which all run at the same time for --seconds seconds: classic and
consumer protocol, librdkafka and Java, static and dynamic, with various session timeouts, committing every 0.3, 1 or 5
s, in transactions, or not at all. Members join, close with and without leaving, are killed, bounce, pause, stall,
subscribe to other topics, are removed by an admin, share an instance id; topics grow, groups are deleted, a broker
restarts. The seed is different each time; it is printed along with the versions.

What was done is the truth (tests/history/truth/judge.py). Four readings of each log are scored: one that knows only the
log, one that is given the session timeouts of consumer groups (`--session-timeout`, or read from a broker), one of a
log whose first two fifths are compacted, and one that begins after them (`--since`). `certain` means that the records
prove it, and must be right in 99 of 100 cases, `likely` in 90; `possible` promises nothing. In brackets: the 95 %
Wilson interval. Exit code 1 if the interval lies below a promise.
"""

import argparse
import itertools
import pathlib
import pickle
import random
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

import pyarrow as pa
import pyarrow.compute as pc

from bench.figures import figure
from kgm.history.causes.session_timeouts import GivenSessions, no_session
from kgm.history.derive import derive
from tests.history.truth.judge import Judge
from tests.history.truth.scores import Scores, interval
from tests.history.truth.stories import play

OLD, FIRST_NEW, NEW = ("2.4.1", "2.8.2", "3.3.2", "3.6.2", "3.9.1"), ("4.0.1", "4.1.1", "4.2.0"), ("4.3.0", "4.4.0")
#: The share of a log that is compacted or left out.
FIRST_PART = 0.4


def whole(raw):
    return raw


def in_parts(raw):
    """(first part, rest) of the records of each partition."""
    for number in pc.unique(raw.column("partition")).to_pylist():
        rows = raw.filter(pc.equal(raw.column("partition"), number)).sort_by("offset")
        cut = int(len(rows) * FIRST_PART)
        yield rows.slice(0, cut), rows.slice(cut)


def compacted(raw):
    """The records, with only the last record of each key in the first part."""
    parts = []
    for first, rest in in_parts(raw):
        last = {key: place for place, key in enumerate(first.column("key").to_pylist())}
        parts += [first.take(sorted(last.values())), rest]
    return pa.concat_tables(parts)


def begun_late(raw):
    return pa.concat_tables([rest for _, rest in in_parts(raw)])


READINGS = {
    "the log alone": (whole, False),
    "session timeouts given": (whole, True),
    "compacted in part": (compacted, False),
    "begun late": (begun_late, False),
}


def drawn_versions(seed):
    draw = random.Random(f"versions {seed}")
    return [draw.choice(OLD), draw.choice(FIRST_NEW), *NEW]


def score(run, scores, ends):
    """Adds the verdicts on a run to the scores. Returns the wrong ones as (version, reading, verdict)."""
    judge = Judge(run.acts, run.names, run.log, replaced_unseen=run.replaced_unseen)
    wrong = []
    for reading, (part_of, given) in READINGS.items():
        sessions = GivenSessions(by_group=run.sessions) if given else no_session
        tables = derive(part_of(run.raw), session_of_group=sessions).tables
        verdicts, tenures = judge.judge(tables)
        for each, into in [
            *((each, scores[reading]) for each in verdicts),
            *((each, ends[reading]) for each in tenures),
        ]:
            into.verdict(each.cause, each.confidence, each.right)
            if each.right is False and each.confidence != "possible":
                wrong.append((run.version, reading, each))
        for act, is_found in judge.recall(tables) if part_of is whole else ():
            scores[reading].recall(act.expected, is_found)
    return wrong


def show(each):
    row, act = each.row, each.act
    print(
        f"  {row['group_id']} {row['partition']}:{row.get('offset', row.get('to_offset'))} "
        f"{row.get('from_generation')}->{row.get('to_generation')} {each.cause} ({each.confidence}), "
        f"{(row['timestamp'] - act.since) / 1000:.1f} of {(act.until - act.since) / 1000:.1f} s\n"
        f"    said: {[(who['client_id'], who['member_id'][-6:], who['what']) for who in row['who']]} {row.get('also', '')}"
        f" {row.get('evidence', '')}\n"
        f"    done: {act.expected} { ({name: sorted(what) for name, what in act.members.items()}) } {sorted(act.causes)}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--versions", help="comma-separated; by default four drawn with the seed")
    parser.add_argument("--groups", type=int, default=32)
    parser.add_argument("--seconds", type=int, default=80)
    parser.add_argument("--wrong", action="store_true", help="print each wrong verdict that is certain or likely")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR", help="save the runs there")
    parser.add_argument("--from", dest="kept", type=pathlib.Path, metavar="DIR", help="score the runs saved there")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(1_000_000) if arguments.seed is None else arguments.seed
    scores, ends = ({reading: Scores() for reading in READINGS} for _ in range(2))
    for run in runs(arguments, seed):
        wrong = score(run, scores, ends)
        print(
            f"{run.version}: {len(run.raw):,} records, {len(run.acts)} steps; ended early: {len(run.failed)}",
            flush=True,
        )
        for _, reading, each in wrong if arguments.wrong else ():
            print(reading)
            show(each)
    for reading in READINGS:
        print(f"\nrebalances and events, {reading}\n{scores[reading].table()}")
        print(f"\nends of members, {reading}\n{ends[reading].table()}")
        print(f"\n{reading}:\n{scores[reading].calibration()}")
    for reading, confidence in itertools.product(READINGS, ("certain", "likely", "possible")):
        if counts := scores[reading].counts(confidence):
            low, high = (100 * each for each in interval(counts[True], counts.total()))
            title = f"{reading}: `{confidence}`, {counts.total():,} verdicts ({low:.1f} to {high:.1f})"
            figure(title, "% right", 100 * counts[True] / counts.total())
    broken = [f"{reading}: {', '.join(of)}" for reading in READINGS if (of := scores[reading].broken_promises())]
    sys.exit(f"right less often than promised: {'; '.join(broken)}" if broken else 0)


def runs(arguments, seed):
    if arguments.kept is not None:
        for path in sorted(arguments.kept.glob("*.pickle")):
            yield pickle.loads(path.read_bytes())
        return
    versions = arguments.versions.split(",") if arguments.versions else drawn_versions(seed)
    print(f"seed {seed}, versions {','.join(versions)}", flush=True)
    for number, version in enumerate(versions):
        began = time.monotonic()
        restart = number == len(versions) - 1
        run = play(version=version, seed=seed, groups=arguments.groups, seconds=arguments.seconds, restart=restart)
        print(f"{version}: played in {time.monotonic() - began:.0f} s", flush=True)
        if arguments.keep is not None:
            arguments.keep.mkdir(parents=True, exist_ok=True)
            (arguments.keep / f"{seed}-{version}.pickle").write_bytes(pickle.dumps(run))
        yield run


if __name__ == "__main__":
    main()
