"""Committed offsets of every type of group, those of open transactions too."""
