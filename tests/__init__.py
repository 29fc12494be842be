"""Tests of kgm; the tree mirrors kgm/."""
