"""Sparks for tests: settings that start fast, jars from kgm's cache."""

from pathlib import Path

from tests.kafka.jars import jars as pinned
from tests.kafka.java_tools import QUICK

#: With little optimization, and without everything that tests do not look at.
FAST = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "1",  # tasks of each look at the log of a table; 50 by default
    "spark.driver.memory": "700m",
    "spark.driver.extraJavaOptions": " ".join(QUICK),
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.python.worker.reuse": "true",
}


def jars() -> Path:
    """The directory with the jars for Delta of the PySpark that is installed."""
    import pyspark

    return pinned(f"spark-{pyspark.__version__}")


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
