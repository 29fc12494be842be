"""Requests on classic groups, with static membership (KIP-345): one module for each request.

- `join`: JoinGroup; `sync`: SyncGroup; `heartbeat`: Heartbeat; `leave`: LeaveGroup
- `rebalance`: the join phase and the sync phase, the alarms that end them, and members that are removed
- `standby`: newcomers that are held back for a planned scale-out, and spares (not in Apache Kafka)
- `regular_round`: a rebalance without surprises in one step, for the simulation
- `records`: a classic group as its record in the log, and back

What each request does in each state: `kgm.coordinator.groups.classic_state`. The requests of members that use the
classic protocol in a *consumer* group are in `kgm.coordinator.consumer.classic_protocol`.
"""
