"""Assignors that run in the client that leads a classic group: Java's, and librdkafka's where it differs.

- `range`, `round_robin`, `sticky` (eager and cooperative): the entry points, as in Kafka
- `sticky_claims`: which member owned which partition; `sticky_constrained`, `sticky_general`: the two algorithms, for
  equal and for different subscriptions; `sticky_moves`: partitions that move back
- `librdkafka`: the assignors of its consumers
- `member_order`, `racks`: the order of members in Java, and when racks matter
"""
