"""The logs in tests/data/offsets-log: real segments, and what Kafka itself reads in them."""

import gzip
import json
import shutil
from functools import cache

from tests import ROOT

DATA = ROOT / "tests" / "data" / "offsets-log"
KINDS = ("plain", "compacted", "synthetic")


def partitions(kind):
    """The partitions of a log, by number."""
    return {int(path.name.rpartition("-")[2]): path for path in sorted((DATA / kind).glob("__consumer_offsets-*"))}


def unpack(kind, partition, directory):
    """A copy of one partition that can be opened."""
    directory.mkdir(parents=True)
    for path in partitions(kind)[partition].glob("*.log.gz"):
        with gzip.open(path) as packed, (directory / path.stem).open("wb") as out:
            shutil.copyfileobj(packed, out)
    return directory


def segment_bytes(kind, partition):
    """The bytes of the partition's segments, oldest first."""
    return [gzip.decompress(path.read_bytes()) for path in sorted(partitions(kind)[partition].glob("*.log.gz"))]


@cache
def _truth(kind):
    with gzip.open(DATA / kind / "truth.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def truth(kind, partition):
    """Kafka's reading of one partition, a dict for each record; not to be changed."""
    return [row for row in _truth(kind) if row["partition"] == partition]


def groups(kind):
    """What a broker reported about its groups after it had loaded the log."""
    with gzip.open(DATA / kind / "groups.json.gz", "rt", encoding="utf-8") as file:
        return json.load(file)["groups"]
