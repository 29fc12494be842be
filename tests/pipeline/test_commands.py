"""`kgm history` where it runs on Spark: kgm as a process, as an operator starts it."""

import json
import subprocess
from pathlib import Path

import pytest

from kgm.history.folders import Reading, folders, raw_table
from kgm.history.store.sink_files import counted_files
from tests import KGM
from tests.cli.environment import bare
from tests.cli.runner import kgm

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.slow]


def answer(*arguments):
    run = kgm("history", *arguments, "-o", "json", timeout_s=600)
    assert (run.code, run.err) == (0, ""), run.err
    return json.loads(run.out)["data"]


def on_spark(options):
    """The options that start Spark as the session of the tests does."""
    words = ["--jars", str(options.jars), "--master", "local[1]"]
    return words + [word for key, value in options.conf.items() for word in ("--spark-conf", f"{key}={value}")]


@pytest.mark.parametrize("command", [("capture", "--once"), ("build",)], ids=lambda words: words[0])
def test_the_store_is_there_though_the_result_cannot_be_printed(options, plain_log, tmp_path, command):
    source = ["--source", f"segments:{plain_log}", "--out", str(tmp_path / "store"), *on_spark(options)]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*KGM, "history", *command, *source], stdout=full, stderr=subprocess.PIPE, text=True, check=False,
            env=bare(), timeout=600,
        )  # fmt: skip
    assert done.returncode == 1
    assert "error: the output cannot be written: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert counted_files(tmp_path / "store" / "bronze" / "raw")


def test_a_fleet_costs_the_same_on_spark(spark, options, plain_log, tmp_path):
    out = tmp_path / "store"
    built = answer("build", "--source", f"segments:{plain_log}", "--out", str(out), *on_spark(options))
    question = ["simulate-fleet", "--store", str(out), "--match", "k8-*", "--draws", "1"]
    here, there = answer(*question)["costs"], answer(*question, *on_spark(options))["costs"]
    assert there == here
    assert len(here) == 6
    assert sum(each["reason"] is None for each in here) == 5
    assert built["records"] == len(raw_table(folders(plain_log), Reading()))
