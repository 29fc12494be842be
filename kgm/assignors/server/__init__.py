"""Assignors that run in the coordinator of a consumer group (KIP-848).

- `range`; `uniform`, for equal subscriptions, and `uniform_heterogeneous`, for different ones
- `broker_view`: members and topics in the order in which the coordinator gives them to its assignors
"""
