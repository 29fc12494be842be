"""Packages that come with an extra: what is missing, and how to install it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from kgm.model.errors import UsageError

#: By package, the extra that installs it. Not every history command needs Spark.
_EXTRAS = dict.fromkeys(("numpy", "pyarrow"), "history") | dict.fromkeys(("pandas", "pyspark", "py4j"), "spark")


@contextlib.contextmanager
def extra_needed() -> Iterator[None]:
    """Wraps code that needs numpy, pyarrow or Spark. Raises UsageError where one is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRAS:
            raise
        raise UsageError(
            f"kgm history needs {missing}, which is not installed", hint=f"pip install 'kgm[{_EXTRAS[missing]}]'"
        ) from error
