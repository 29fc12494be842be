"""What a run tests, and how much of it: the options `--long` and `--seed`.

Without options the suite shows every capability once, with the same cases each time. `--long` adds the tests that are
marked `long`, and runs more cases of those marked `sized`. `--seed` draws other cases; each failure is printed with the
command that repeats it."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import random
import shlex
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeVar

import pytest

T = TypeVar("T")
#: The seed of a run without `--seed`.
USUAL_SEED: Final = 0
_NEW: Final = "new"
_SEEDS: Final = 1_000_000
#: The time limit of a test that runs more cases and has no limit of its own.
_PATIENCE_S: Final = 900

_is_long = False
_seed = USUAL_SEED
_canary: str | None = None
_keeps_brokers = False


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("kgm")
    group.addoption("--long", action="store_true", help="also the sweeps, which take about 40 minutes on two cores")
    group.addoption(
        "--canary", nargs="?", const="newest", metavar="VERSION", help="compare a release of Kafka with what kgm knows"
    )
    group.addoption(
        "--keep-brokers", action="store_true", help="leave the folders of brokers, and print where they are"
    )
    group.addoption("--require-tools", action="store_true", help="fail where a program is missing that tests need")
    group.addoption(
        "--seed",
        nargs="?",
        const=_NEW,
        type=_seed_of,
        default=USUAL_SEED,
        metavar="N",
        help="draw other cases: those of the seed N, or of a new one",
    )


def _seed_of(text: str) -> int:
    if text == _NEW:
        return random.SystemRandom().randrange(1, _SEEDS)
    return int(text)


def configure(config: pytest.Config) -> None:
    """Called before any test module is imported: many make their parameters at import."""
    global _is_long, _seed, _canary, _keeps_brokers  # noqa: PLW0603 (parameters are made at import, where there is no fixture)
    _is_long = config.getoption("--long")
    _canary = config.getoption("--canary")
    _keeps_brokers = config.getoption("--keep-brokers")
    # Workers read the same line, but each would draw a seed of its own.
    worker = getattr(config, "workerinput", {})
    config.option.seed = _seed = worker.get("seed", config.getoption("--seed"))


def tell_worker(worker_input: dict[str, object]) -> None:
    """Tell a worker what it must not work out for itself."""
    worker_input["seed"] = _seed


def sized(quick: T, long: T) -> T:
    """The size of something that is marked `sized`: `quick`, or `long` with `--long`."""
    return long if _is_long else quick


def is_long() -> bool:
    return _is_long


def canary() -> str | None:
    """The release of Kafka to compare with what is known: a version, "newest", or None for no comparison."""
    return _canary


def keeps_brokers() -> bool:
    """Whether the folders of brokers are kept when they end."""
    return _keeps_brokers


def first_seed() -> int:
    """The seed of a test's first own draw: the same in all processes of a run, and far from the seeds of other runs."""
    return _seed * 1_000_000


def header() -> str:
    """The line at the head of a run."""
    return f"cases: seed {_seed}, {'with' if _is_long else 'without'} the sweeps of --long"


def is_usual_seed() -> bool:
    """Whether the run has the usual cases."""
    return _seed == USUAL_SEED


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Mark what is only for `--long` before pytest looks at `-m`, so that `--long -m long` runs all of that. Leave it out
    and put the files in order after `-k` and pytest-randomly have had their turn."""
    if _is_long:
        _mark_long(items)
    yield
    if not _is_long:
        _leave_out_long(config, items)
    _put_in_order(items)


def _mark_long(items: list[pytest.Item]) -> None:
    for item in items:
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(_PATIENCE_S))
    for item in _beyond_few(items):
        item.add_marker(pytest.mark.long)


def _leave_out_long(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [*_beyond_few(items), *(item for item in items if item.get_closest_marker("long"))]
    if left_out:
        gone = set(left_out)
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in gone]


def _beyond_few(items: list[pytest.Item]) -> list[pytest.Item]:
    """The parameter sets that a test has beyond those that `few` leaves it."""
    alike: defaultdict[object, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("few") and not item.get_closest_marker("long"):
            alike[item.path, getattr(item, "originalname", item.name)].append(item)
    return [item for of_one in alike.values() for item in _beyond(of_one, of_one[0].get_closest_marker("few").args[0])]


def _beyond(items: list[pytest.Item], few: int) -> list[pytest.Item]:
    """All items but `few`, which are spread evenly, whatever the order of the run."""
    in_order = sorted(items, key=lambda item: item.name)
    kept = {in_order[number * len(in_order) // few] for number in range(few)}
    return [item for item in in_order if item not in kept]


def repeating_line(nodeid: str) -> str | None:
    """The command line that runs a test again with the cases of this run; None if a plain one does."""
    options = [*(["--long"] if _is_long else []), *([f"--seed={_seed}"] if not is_usual_seed() else [])]
    return f"python -m pytest {' '.join(options)} {shlex.quote(nodeid)}" if options else None


def import_in_turn(config: pytest.Config) -> None:
    """Import what this worker is about to collect, each worker starting at a different file: in a fresh clone nothing
    is compiled yet, and all of them would compile the same file at the same time."""
    worker = getattr(config, "workerinput", None)
    if worker is None:
        return
    files = [file for arg in config.args for file in _test_files(config.rootpath / arg.partition("::")[0])]
    first = len(files) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    for file in (*files[first:], *files[:first]):
        # What cannot be imported is reported when it is collected.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(file.relative_to(config.rootpath).with_suffix("").parts))


def _test_files(path: Path) -> list[Path]:
    return [path] if path.suffix else sorted(path.rglob("test_*.py"))


#: The point, as a share of the files that take a while, by which the last file that mostly waits has started: none of
#: them starts when the others end.
_WAITING_BEGINS = 0.8


#: What is expensive and lives in a worker, such as a JVM with Spark: the files that use it run in the same worker.
TOGETHER: Final = {
    "tests/pipeline/test_building.py": "Spark",
    "tests/pipeline/test_kafka.py": "Spark",
    **dict.fromkeys(
        (
            f"tests/cli/commands/history/test_{name}.py"
            for name in ("answers", "edges", "exit_codes", "fleet", "session_timeout")
        ),
        "tables of a real log",
    ),
    "tests/coordinator/classic/test_standby_log.py": "Kafka's coordinators",
    "tests/coordinator/lockstep/test_classic_histories.py": "Kafka's coordinators",
    "tests/coordinator/lockstep/test_consumer_histories.py": "Kafka's coordinators",
    "tests/coordinator/lockstep/test_other_versions.py": "Kafka's coordinators",
    "tests/coordinator/lockstep/test_streams_histories.py": "Kafka's coordinators",
    "tests/kafka/test_oracle.py": "Kafka's messages",
    "tests/protocol/test_java_oracle.py": "Kafka's messages",
}


#: Files whose tests take minutes each with --long: one worker would still be running them when all others have ended.
APART: Final = frozenset({"tests/frameworks/test_streams_predictions.py", "tests/pipeline/test_store.py"})


def part_of_the_work(nodeid: str) -> str:
    """The unit of work that one worker gets as a whole: a file of tests, several files, or a single test."""
    file = nodeid.partition("::")[0]
    return nodeid if file in APART else TOGETHER.get(file, file)


def scheduler(config: pytest.Config, log: object) -> object:
    """The scheduler of `--dist loadfile`, which gives all tests of one file, or of several files (`TOGETHER`), to one
    worker."""
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return part_of_the_work(nodeid)

    return ByFile(config, log)


def _put_in_order(items: list[pytest.Item]) -> None:
    """Files that take a while come before files of quick tests, so that all processes end at about the same time; the
    files that run together in one process come first. Files that mostly wait for real clients or for Spark are spread
    among them, so that a few of them wait while the other processes compute. Otherwise the order stays random."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)

    def has(of_file: list[pytest.Item], *marks: str) -> bool:
        return any(item.get_closest_marker(name) for item in of_file for name in marks)

    def rank(of_file: list[pytest.Item]) -> int:
        if has(of_file, "scenes", "spark"):
            return 0
        if of_file[0].nodeid.partition("::")[0] in TOGETHER:
            return 1
        return 2 if has(of_file, "slow", "kafka") else 3

    waiting, together, slow, quick = ([one for one in files.values() if rank(one) == number] for number in range(4))
    slow = together + slow
    every = max(1, int(len(slow or quick) * _WAITING_BEGINS / max(1, len(waiting))))
    ordered: list[pytest.Item] = []
    for number, of_file in enumerate([*slow, *quick]):
        if number % every == 0 and waiting:
            ordered += waiting.pop(0)
        ordered += of_file
    items[:] = [*ordered, *itertools.chain.from_iterable(waiting)]
