#!/usr/bin/env python3
"""Captures and builds that are killed with SIGKILL, at one step after another, on an object store and on HDFS: whether
a reader ever sees anything but a whole build, and whether the next one has every record exactly once.

usage: python bench/kills.py [--stores S3,HDFS] [--formats parquet,delta] [--every N]      (needs Java 17+, and Maven for the jars)

Steps are before and after everything that changes the store: each write and deletion on S3, each HTTP request other
than GET on HDFS. The store grows between two kills, so each capture and build has something new; after 20 kills comes a
new store, because each build leaves versions of tables that the next one reads. After a kill, kgm's readers must see the
last whole build or the next one, and after the following build the next one; anything else ends this with an error. S3
is moto's server, HDFS is a name node and a data node of Hadoop 3.4.1."""

import argparse
import contextlib
import itertools
import os
import pathlib
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from bench.figures import figure
from kgm.pipeline import Source
from tests.hdfs import MiniHdfs
from tests.pipeline.killed_build import without_spark
from tests.pipeline.test_store import killed_at_steps
from tests.pipeline.writer import write_log
from tests.s3 import S3Server


@contextlib.contextmanager
def s3(_):
    server = S3Server()
    os.environ.update(server.environment)
    try:
        yield lambda: server.bucket() / "history", {"environment": server.environment}
    finally:
        server.stop()


@contextlib.contextmanager
def hdfs(folder):
    cluster = MiniHdfs(folder)
    try:
        yield cluster.directory, {"environment": {}, "requests": True}
    finally:
        cluster.stop()


def survived(place, log, form, every, how):
    """How many kills, one at every `every`th step of a capture and build."""
    steps, died = itertools.count(1, every), 0
    while True:
        more = killed_at_steps(place(), log, itertools.islice(steps, KILLS_OF_A_STORE), format=form, **how)
        died += more
        if more < KILLS_OF_A_STORE:
            return died


#: See the text at the top.
KILLS_OF_A_STORE = 20
STORES = {"S3": s3, "HDFS": hdfs}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stores", default="S3,HDFS")
    parser.add_argument("--formats", default="parquet,delta")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="kill at every Nth step")
    arguments = parser.parse_args()
    without_spark(pytest.MonkeyPatch())
    for name in arguments.stores.split(","):
        with (
            tempfile.TemporaryDirectory(prefix="kgm-bench-") as temporary,
            STORES[name](pathlib.Path(temporary)) as found,
        ):
            place, how = found
            for form in arguments.formats.split(","):
                folder = pathlib.Path(temporary) / f"log-{form}"
                writers = [write_log(folder, partition) for partition in (0, 1)]

                def grow(count, writers=writers):
                    for writer in writers:
                        writer(count)

                grow(100)
                log = Source.parse(f"segments:{folder}"), grow
                died = survived(place, log, form, arguments.every, how)
                figure(f"kills survived, {name}, {form}, every {arguments.every} steps", "kills", died)


if __name__ == "__main__":
    main()
