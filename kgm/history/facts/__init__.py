"""What a group's records mean: the rows of the silver and gold tables.

`classic_groups` and `consumer_groups` go through the records of one group, in order, for their respective protocol, and
keep the state needed to continue. Modules that they share: `tenures` (which member id was behind an identity, and
when), `classic_ownership` and `consumer_ownership` (who owned which partition), `restarts`, `alarms`, `advice` (the
session timeout that the restarts call for), `daily_totals`, `changes` (how a member changed), `commit_windows` (commits
between records), `consumer_epochs` and `consumer_state` (for the consumer protocol only). `offset_changes` is separate:
it goes through a group's commits on request (`kgm history offsets`)."""
