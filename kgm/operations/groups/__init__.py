"""Groups of a cluster: `selection` finds those that are named or match a pattern, `listing` lists all of them,
`partitions` those that they own or should own, `unread` what a cluster did not tell of them."""
