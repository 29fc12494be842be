"""Sparks for tests: settings that start fast, jars from kgm's cache."""

import os
import subprocess
import sys
from pathlib import Path

from tests.kafka.jars import cache_dir, locked

#: Short of optimisation, and of everything that a test does not look at.
FAST = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.memory": "700m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData -Xshare:auto",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.python.worker.reuse": "true",
}
_FETCH = """
import sys
from kgm.pipeline import Source, SparkOptions, start
options = SparkOptions(master="local[1]", conf={"spark.jars.ivy": sys.argv[1]})
start(options, Source.parse("kafka"), Source.parse("delta:any")).stop()
"""


def jars() -> Path:
    """The directory with the jars for Kafka and Delta of the PySpark that is installed, fetched as kgm fetches them."""
    import pyspark

    folder = cache_dir() / f"spark-{pyspark.__version__}-jars"
    marker = folder / ".complete"
    if not marker.exists():
        with locked(folder.name):
            if not marker.exists():
                environment = {name: value for name, value in os.environ.items() if name != "KGM_SPARK_JARS"}
                command = [sys.executable, "-c", _FETCH, str(folder)]
                subprocess.run(command, env=environment, check=True, timeout=600)
                marker.touch()
    return folder / "jars"


def stopped(session) -> None:
    """End a session and its JVM, and wait for it."""
    from pyspark import SparkContext

    gateway = session.sparkContext._gateway
    session.stop()
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    process = gateway.proc
    if process.stdin is not None:
        process.stdin.close()
    process.wait(60)
