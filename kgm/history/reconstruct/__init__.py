"""Turns the records of classic groups into their snapshots, changes and rebalances.

`classic_snapshots` defines snapshots, changes and rebalances, and how one record differs from the one before;
`incremental_fold` goes over a group's records, with members as the numbers of `member_sets`. `partition_replay` does it
for all groups of a partition, piece by piece (`downtime`: how long rebalances stopped a group, according to its
commits), `replay_state` keeps what it needs to continue, and `timelines` merges what the pieces show."""
