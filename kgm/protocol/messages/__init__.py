"""Requests and responses of Apache Kafka 4.3.0, one module a message. Generated: do not edit."""
