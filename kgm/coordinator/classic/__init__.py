"""Requests on classic groups, with static membership (KIP-345): one module for each request.

- `join`: JoinGroup; `sync`: SyncGroup; `heartbeat`: Heartbeat; `leave`: LeaveGroup
- `rebalance`: the join and sync phases, the alarms that end them, and removed members
- `standby`: newcomers that are held back for a planned scale-out, and spares (not in Apache Kafka)
- `regular_round`: a rebalance without surprises, in one step, for the simulation
- `records`: converts a classic group to its log record, and back

What each request does in each state: `kgm.coordinator.groups.classic_state`. Requests of members that use the classic
protocol in a *consumer* group are handled in `kgm.coordinator.consumer.classic_protocol`.
"""
