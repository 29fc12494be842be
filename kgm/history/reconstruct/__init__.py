"""From the records of classic groups to their snapshots, changes and rebalances.

`classic_snapshots` says what a snapshot, a change and a rebalance is, with the plain fold over a group's records;
`incremental_fold` does the same by the differences between records, whose members `member_sets` has as numbers.
`partition_replay` does it for all groups of a partition, piece by piece (`downtime`: how long rebalances stopped a
group, by its commits); `timelines` for all partitions of a table, and keeps what has to be known to go on."""
