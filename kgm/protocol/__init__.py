"""Bytes <-> messages. No sockets, no clock.

- `messages/`: a class for each message, generated from the schemas in Kafka's jars by `tools/generate_messages.py`:
  slots, Kafka's defaults, and a table of fields (`struct`)
- `compiler`: compiles such a table, for one version, into a straight-line decoder and encoder the first time they are
  needed
- `codec`: encodes and decodes messages; turns every low-level error into `DecodeError` or `EncodeError`
- `primitives`: varints, lengths and tags
- `apis`, `api_table`: API keys and versions
- `released_apis`: the API versions and features that real brokers of each release report
- `wire`: request and response headers; `subscription`: the consumer protocol's subscription and assignment inside the
  group messages (with the generation of KIP-792)
"""
