"""Sparks for tests: settings that start fast, jars from kgm's cache."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.kafka.jars import cache_dir, executable, locked

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
start(options, Source.parse("spark-kafka"), Source.parse("delta:any")).stop()
"""


_PROJECT = """<project><modelVersion>4.0.0</modelVersion><groupId>local</groupId><artifactId>jars</artifactId>
<version>1</version><packaging>pom</packaging><dependencies>{}</dependencies></project>"""
_OF_SPARK = "org.apache.hadoop,org.scala-lang,org.scala-lang.modules,org.slf4j"


def jars() -> Path:
    """The directory with the jars for Kafka and Delta of the PySpark that is installed, fetched as kgm fetches them; by
    Maven where Spark does not get at them, but Maven's settings know a mirror."""
    import pyspark

    folder = cache_dir() / f"spark-{pyspark.__version__}-jars"
    marker = folder / ".complete"
    if not marker.exists():
        with locked(folder.name):
            if not marker.exists():
                shutil.rmtree(folder, ignore_errors=True)
                environment = {name: value for name, value in os.environ.items() if name != "KGM_SPARK_JARS"}
                command = [sys.executable, "-c", _FETCH, str(folder)]
                done = subprocess.run(
                    command, env=environment, capture_output=True, text=True, timeout=900, check=False
                )
                if done.returncode:
                    print(done.stderr[-4000:], file=sys.stderr)
                    shutil.rmtree(folder, ignore_errors=True)
                    fetch_by_maven(folder, pyspark.__version__)
                marker.touch()
    return folder / "jars"


def fetch_by_maven(folder, version):
    wanted = (("org.apache.spark", "spark-sql-kafka-0-10_2.13", version), ("io.delta", "delta-spark_2.13", "4.0.0"))
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{number}</version></dependency>"
        for group, name, number in wanted
    )
    folder.mkdir(parents=True)
    (folder / "pom.xml").write_text(_PROJECT.format(dependencies))
    command = [executable("mvn"), "-q", "-B", "-f", str(folder / "pom.xml"), "dependency:copy-dependencies",
               f"-DexcludeGroupIds={_OF_SPARK}", f"-DoutputDirectory={folder / 'jars'}"]  # fmt: skip
    subprocess.run(command, check=True, timeout=900)


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
