"""kgm: consumer-group membership of Apache Kafka, seen, simulated, and changed safely."""

__version__ = "0.1.0"
