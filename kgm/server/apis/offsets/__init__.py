"""Committed offsets, which the coordinator of the group keeps (kgm.coordinator.offsets).

Where a version names topics by id, the broker puts in names for the coordinator, and ids into its answer."""
