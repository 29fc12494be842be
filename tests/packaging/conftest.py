"""Distributions that are built once for all tests of a process."""

from __future__ import annotations

import pathlib
import shutil

import pytest

from tests import ROOT
from tests.packaging.building import built
from tests.packaging.installed import required, wheel_of


@pytest.fixture(scope="session")
def dist(tmp_path_factory) -> dict[str, pathlib.Path]:
    """The sdist and the wheel of this checkout."""
    return built(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def wheels(dist, tmp_path_factory) -> pathlib.Path:
    """A folder with the wheel and the wheels of its dependencies, including those of `kgm demo`."""
    folder = tmp_path_factory.mktemp("wheels")
    shutil.copy(dist["wheel"], folder)
    for name in sorted({*required("kafka-kgm", ["demo"]), "pip"}):
        wheel_of(name, folder)
    return folder
