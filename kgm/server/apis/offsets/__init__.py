"""Committed offsets, which the group's coordinator keeps (kgm.coordinator.offsets).

In versions that name topics by id, the broker replaces ids with names for the coordinator, and puts ids into its
response."""
