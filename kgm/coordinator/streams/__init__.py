"""Requests on streams groups (KIP-1071).

- `heartbeat`: StreamsGroupHeartbeat
- `topology`: how many tasks there are, and which internal topics, with the topics that exist
- `target`: the target assignment of the group
- `reconciliation`: how a member gets from its current to its target assignment
- `endpoints`: which partitions are served where, for interactive queries
- `fencing`: members that leave or expire, and timers
- `records`: a streams group as its records in the log, and back (`replay`)
"""
