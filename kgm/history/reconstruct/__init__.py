"""From the records of classic groups to their snapshots, changes and rebalances."""
