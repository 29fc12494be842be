"""Groups of a cluster: `selection` finds those that are named or match a pattern, `listing` lists all of them,
`partitions` lists the partitions they own or should own, `unread` says what the cluster did not report about them."""
