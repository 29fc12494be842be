"""What the records of a group mean: the rows of the silver and gold tables.

`classic_groups` and `consumer_groups` go through the records of one group of either protocol, in order, and keep what
has to be known to go on. What they have in common: `tenures` (which member id was behind an identity, and when),
`classic_ownership` and `consumer_ownership` (who owned which partition), `restarts`, `alarms`, `advice` (the session
timeout that restarts ask for), `daily_totals`, `changes` (what became of a member), `commit_windows` (commits between
records), `consumer_epochs` and `consumer_state` (of the consumer protocol alone). `offset_changes` stands apart: it
goes through the commits of a group when it is asked (`kgm history offsets`)."""
