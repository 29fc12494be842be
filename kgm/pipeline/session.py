"""A Spark session: on this machine by default, on any master, or inside `spark-submit`.

The jars match the installed PySpark: Spark fetches them from Maven Central itself, or takes them from a directory
(`--jars`, `KGM_SPARK_JARS`) if it has no access to that. The JVM's log goes to a temporary file, or to the file named
by `KGM_SPARK_LOG`; its last lines are shown if Spark does not start."""

import atexit
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from kgm.model.distribution import install_command
from kgm.model.errors import UsageError
from kgm.pipeline.options import Source, SourceKind, SparkOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Four attempts for each task, as on a cluster: a worker that dies does not fail the job.
_DEFAULT_MASTER: Final = "local[*,4]"
_SUPPORTED: Final = "PySpark 4.0 to 4.x, except 4.2.0"
#: Delta by the version of Spark for which it is built.
_DELTA: Final = {"4.0": "io.delta:delta-spark_2.13:4.0.0"}
_DELTA_CLASS: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
#: Spark includes these itself.
_EXCLUDED: Final = (
    "org.apache.hadoop:hadoop-client-api", "org.apache.hadoop:hadoop-client-runtime", "org.slf4j:slf4j-api",
    "org.scala-lang.modules:scala-parallel-collections_2.13",
)  # fmt: skip
_LOG_LINES: Final = 8
_OF_STORES: Final = (
    "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE",
    "AWS_EC2_METADATA_DISABLED",
)  # fmt: skip


def start(options: SparkOptions, *sources: Source) -> "SparkSession":
    """See `kgm.pipeline.start`."""
    _check_installed()
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:  # noqa: SLF001  (a session is "active" in some threads only)
        return _prepared(SparkSession.builder.getOrCreate(), sources)
    settings = _settings(options, sources)
    with _log() as log:  # the JVM has it open, too
        try:
            spark = _launched(settings, options.master, log)
        except (PySparkException, OSError, ValueError) as error:
            message = str(error).splitlines()[0]
            raise UsageError(f"Spark does not start: {message}", facts=_tail(log), hint=_hint(settings)) from error
    return _prepared(spark, sources)


def _check_installed() -> None:
    try:
        import numpy  # noqa: F401, ICN001
        import pyarrow  # noqa: F401, ICN001
        import pyspark
    except ImportError as error:
        raise UsageError(
            f"{error.name} is not installed; the history on Spark needs an extra", hint=install_command("spark")
        ) from None
    version = tuple(int(part) for part in pyspark.__version__.split(".")[:3] if part.isdecimal())
    if not (4, 0) <= version < (5, 0) or version == (4, 2, 0):
        raise UsageError(
            f"PySpark {pyspark.__version__} is installed; kgm supports {_SUPPORTED}", hint=install_command("spark")
        )
    home = os.environ.get("JAVA_HOME")
    if "PYSPARK_GATEWAY_PORT" not in os.environ and not (
        (home and Path(home, "bin", "java").exists()) or shutil.which("java")
    ):
        raise UsageError(
            "Java was not found in JAVA_HOME or PATH; Spark needs Java 17 or later",
            hint="apt install openjdk-17-jre-headless, or set JAVA_HOME",
        )


def _settings(options: SparkOptions, sources: Sequence[Source]) -> dict[str, str]:
    """Spark's settings: kgm's, overridden by the user's."""
    import pyspark

    settings = {
        "spark.app.name": "kgm",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.pythonUDF.arrow.enabled": "true",
        "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|jaas|keystore[.]key",
        "spark.sql.redaction.options.regex": "(?i)url|secret|password|token|jaas|keystore[.]key",
    }
    if _is_local(options.master):
        # No other machine needs to reach a driver that runs everything itself.
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    packages = _packages(pyspark.__version__, sources)
    if any(source.kind is SourceKind.DELTA for source in sources):
        settings |= {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            # By default, reading a table's log takes 50 tasks.
            "spark.databricks.delta.snapshotPartitions": "2",
        }
    folder = options.jars or (Path(named) if (named := os.environ.get("KGM_SPARK_JARS")) else None)
    if folder is not None:
        jars = sorted(str(path.resolve()) for path in folder.glob("*.jar"))
        if not jars:
            raise UsageError(f"directory {folder} holds no jars", hint=f"needed: {', '.join(packages) or 'none'}")
        settings["spark.jars"] = ",".join(jars)
    elif packages:
        settings["spark.jars.packages"] = ",".join(packages)
        settings["spark.jars.excludes"] = ",".join(_EXCLUDED)
    settings |= options.conf
    if folder is None and packages and "spark.jars.packages" in options.conf:
        asked = options.conf["spark.jars.packages"].split(",")
        settings["spark.jars.packages"] = ",".join(dict.fromkeys([*asked, *packages]))
    return settings


def _packages(version: str, sources: Sequence[Source]) -> list[str]:
    """Maven coordinates of what the sources need in addition to Spark."""
    delta = _DELTA.get(".".join(version.split(".")[:2]))
    return [delta] if delta is not None and any(source.kind is SourceKind.DELTA for source in sources) else []


def _is_local(master: str | None) -> bool:
    return "PYSPARK_GATEWAY_PORT" not in os.environ and (master is None or master.startswith("local"))


def _launched(settings: dict[str, str], master: str | None, log: IO[bytes]) -> "SparkSession":
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    conf = SparkConf(loadDefaults=False)
    for name, value in settings.items():
        conf.set(name, value)
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # in spark-submit, which has its own master and log
        builder = SparkSession.builder
        for name, value in settings.items():
            builder = builder.config(name, value)
        spark = (builder if master is None else builder.master(master)).getOrCreate()
        # A wheel in --py-files reaches only the driver.
        spark.sparkContext.addPyFile(str(_zipped()))
        return spark
    conf.setMaster(settings.get("spark.master") or master or _DEFAULT_MASTER)
    ours = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    option = "spark.driver.extraJavaOptions"
    conf.set(option, " ".join(filter(None, [ours, settings.get(option)])))
    if not _is_local(conf.get("spark.master")):
        conf.set("spark.submit.pyFiles", ",".join(filter(None, [str(_zipped()), settings.get("spark.submit.pyFiles")])))
    gateway = launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
    return SparkSession(SparkContext(conf=conf, gateway=gateway))


def _zipped() -> Path:
    """The package itself in an archive, for workers that do not have it."""
    root = Path(__file__).resolve().parent.parent
    folder = Path(tempfile.mkdtemp(prefix="kgm-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = folder / "kgm.zip"
    if not root.is_dir():  # in an archive already
        shutil.copyfile(root.parent, made)
        return made
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*")):
            if path.suffix in {".py", ".properties", ".json"} and "__pycache__" not in path.parts:
                archive.write(path, Path(root.name) / path.relative_to(root))
    return made


def _prepared(spark: "SparkSession", sources: Sequence[Source]) -> "SparkSession":
    """The session, prepared for the sources. Raises UsageError if it does not have what they need."""
    # Variables that locate stores, without which the session may have started; credentials are the workers' own.
    spark.sparkContext.environment |= {name: os.environ[name] for name in _OF_STORES if name in os.environ}
    if any(source.kind is SourceKind.DELTA for source in sources) and not _has_class(spark, _DELTA_CLASS):
        packages = _packages(spark.version, sources) or ["the Delta of this Spark version"]
        raise UsageError(
            f"this Spark ({spark.version}) does not have the data source delta", facts=(f"missing: {_DELTA_CLASS}",),
            hint=f"add {packages[0]} and its dependencies with --jars DIR, or with spark-submit --packages",
        )  # fmt: skip
    return spark


def _has_class(spark: "SparkSession", name: str) -> bool:
    from py4j.protocol import Py4JError, Py4JJavaError

    jvm = spark.sparkContext._jvm  # noqa: SLF001  (there is no public way)
    assert jvm is not None
    try:
        loader = jvm.Thread.currentThread().getContextClassLoader()
        jvm.java.lang.Class.forName(name, False, loader)  # noqa: FBT003
    except (Py4JJavaError, Py4JError):
        return False
    return True


def _log() -> IO[bytes]:
    named = os.environ.get("KGM_SPARK_LOG")
    if named:
        return Path(named).open("ab+")
    return tempfile.TemporaryFile(prefix="kgm-spark-", suffix=".log")


def _tail(log: IO[bytes]) -> tuple[str, ...]:
    """The log's last lines that are not part of a stack trace."""
    log.seek(0)
    lines = [line.strip() for line in log.read().decode(errors="replace").splitlines()]
    return tuple(line for line in lines if line and not line.startswith(("at ", "::", "...")))[-_LOG_LINES:]


def _hint(settings: dict[str, str]) -> str:
    if "spark.jars.packages" in settings:
        return (
            f"needed: {settings['spark.jars.packages']}; without access to Maven Central, put the jars into a "
            "directory and pass it with --jars DIR or KGM_SPARK_JARS"
        )
    return "Spark needs Java 17 or later: java -version"
