"""Groups of a cluster: `selection` finds those that are named or match a pattern, `listing` lists all of them."""
