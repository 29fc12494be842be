"""The consumers of `kgm demo`."""
