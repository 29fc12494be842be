"""Assignors that run in the client that leads a classic group: Java's, and librdkafka's where they differ."""
