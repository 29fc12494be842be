"""Requests on consumer groups (KIP-848).

- `heartbeat`: ConsumerGroupHeartbeat; `classic_protocol`: JoinGroup, SyncGroup, Heartbeat and LeaveGroup of members
  that use the classic protocol, and LeaveGroup of any member
- `member_update`: the steps that all requests of a member have in common; `regexes`: subscriptions by regular
  expression
- `epochs`: the group epoch, and the topics that it is for
- `target`: the target assignment of the group; `target_order`: Kafka's order of its topics and partitions
- `reconciliation`: how a member gets from its current to its target assignment
- `fencing`: members that leave, are removed or expire; `migration`: a group changes its type while it has members
- `records`: a consumer group as its records in the log, and back (`replay`); `timers`: the timers of its members
"""
