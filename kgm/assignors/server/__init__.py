"""Assignors that run in the coordinator of a consumer group (KIP-848)."""
