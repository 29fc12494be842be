"""Rewrite the answers in the stories with what real brokers answer: the named themes, or all if none is named.

    python -m tests.server.wire.record [--check-kgm] [theme ...]

--check-kgm also plays them on `kgm serve`, and reports the differences."""

import argparse
import asyncio
import sys
import time

from tests.server.wire import story
from tests.server.wire.brokers import SETTINGS, real, served
from tests.server.wire.play import NOTHING, Server, play_all


async def _play(bootstrap, stories):
    server = await Server.meet(bootstrap)
    took = {}
    found = await play_all(stories, server, took)
    for name in sorted(took, key=took.get)[-5:]:
        print(f"  {took[name]:.1f} s {name}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("themes", nargs="*")
    parser.add_argument("--check-kgm", action="store_true")
    arguments = parser.parse_args()
    failed = 0
    themes = [
        path for path in sorted(story.FOLDER.glob("*.txt")) if not arguments.themes or path.stem in arguments.themes
    ]
    files = {path: story.parse(path.stem, path.read_text()) for path in themes}
    for kind in SETTINGS:
        stories = [one for found in files.values() for one in found if one.broker == kind]
        if not stories:
            continue
        with real(kind) as bootstrap:
            begun = time.monotonic()
            results = asyncio.run(_play(bootstrap, stories))
            print(
                f"{len(stories)} stories, {sum(map(len, results.values()))} runs on Kafka: {time.monotonic() - begun:.1f} s"
            )
        for one in stories:
            failed += _write(one, results[one.name])
        if arguments.check_kgm:
            with served(kind) as bootstrap:
                begun = time.monotonic()
                results = asyncio.run(_play(bootstrap, stories))
                print(f"on kgm serve: {time.monotonic() - begun:.1f} s")
            for one in stories:
                for difference in differences(one, results[one.name], of_kgm=True):
                    print(difference)
    for path, stories in files.items():
        path.write_text(story.text_of(stories))
    print(f"{failed} could not be played")
    return failed


def _write(one, runs):
    for versions, run in zip(one.runs(), runs, strict=True):
        if isinstance(run, BaseException):
            print(f"!! {one.name} {versions}: {run}")
            return 1
    for index, step in enumerate(one.steps):
        outcomes = [run[index] for run in runs]
        if all(not lines for _, lines in outcomes):
            step.answers = []
        else:
            step.answers = story.merged([(version, lines or [NOTHING]) for version, lines in outcomes])
    return 0


def differences(one, runs, *, of_kgm=False):
    """The differences between the answers and the story, as texts. A run that is None was not played."""
    found = []
    for number, (versions, run) in enumerate(zip(one.runs(), runs, strict=True)):
        if run is None:
            continue
        if isinstance(run, BaseException):
            return [str(run)]
        for step, (version, lines) in zip(one.steps, run, strict=True):
            expected = story.expected(step, version=version, run=number, of_kgm=of_kgm)
            if step.answers and (lines or [NOTHING]) != expected:
                wanted, got = "\n    ".join(expected), "\n    ".join(lines)
                found.append(
                    f"{one.name}, versions {versions}\n  {step.line}\n  Kafka:\n    {wanted}\n  here:\n    {got}"
                )
                return found
    return found


if __name__ == "__main__":
    sys.exit(main())
