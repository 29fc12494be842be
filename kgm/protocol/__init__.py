"""Bytes <-> messages. No sockets, no clock.

Theory of operation: `tools/generate_messages.py` turns the schemas inside Kafka's jars into one module per message
(`messages/`): slots, Kafka's defaults, and a table of facts. `compiler` turns such a table, for one version, into a
straight-line decoder and encoder the first time they are needed; `codec` keeps them and maps every low-level failure
to `DecodeError` or `EncodeError`. `wire` puts headers in front, `subscription` reads and writes the consumer
protocol's blobs inside the group messages (KIP-792's generation among them).
"""
