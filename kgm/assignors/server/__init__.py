"""Assignors that run in the coordinator of a consumer group (KIP-848), or of a streams group (KIP-1071).

- `range`; `uniform`, for equal subscriptions, and `uniform_heterogeneous`, for different ones
- `broker_view`: members and topics in the order in which the coordinator passes them to its assignors
- `streams_tasks`: assigns Kafka Streams tasks, for streams groups
"""
