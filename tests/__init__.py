"""Tests of kgm; the tree mirrors kgm/."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
#: Starts kgm as a process.
KGM = [sys.executable, "-m", "kgm"]
