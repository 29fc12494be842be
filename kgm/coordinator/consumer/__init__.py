"""Requests on consumer groups (KIP-848).

- `heartbeat`: ConsumerGroupHeartbeat; `classic_protocol`: JoinGroup, SyncGroup, Heartbeat and LeaveGroup from members
  that use the classic protocol, and LeaveGroup from any member
- `member_update`: the steps that all member requests have in common; `regexes`: subscriptions by regular expression
- `epochs`: the group epoch, and the topics that it covers
- `target`: the group's target assignment; `target_order`: Kafka's order of its topics and partitions
- `reconciliation`: how a member gets from its current to its target assignment
- `fencing`: members that leave, are removed or expire; `migration`: changing a group's type while it has members
- `records`: converts a consumer group to its log records, and back (`replay`); `timers`: the timers of its members
"""
