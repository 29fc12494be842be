"""Requests on streams groups (KIP-1071).

- `heartbeat`: StreamsGroupHeartbeat
- `topology`: how many tasks and which internal topics there are, given the topics that exist
- `target`: the group's target assignment
- `reconciliation`: how a member moves from its current to its target assignment
- `endpoints`: which endpoint serves which partitions, for interactive queries
- `fencing`: members that leave or expire, and timers
- `records`: converts a streams group to its log records, and back (`replay`)
"""
