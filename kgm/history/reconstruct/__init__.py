"""Turns the records of classic groups into their snapshots, changes and rebalances.

`classic_snapshots` defines snapshots, changes and rebalances, with the plain fold over a group's records;
`incremental_fold` does the same from the differences between records, with members as the numbers of `member_sets`.
`partition_replay` does it for all groups of a partition, piece by piece (`downtime`: how long rebalances stopped a
group, according to its commits); `timelines` does it for all partitions of a table, and keeps the state needed to
continue."""
