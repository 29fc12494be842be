"""What `__consumer_offsets` says about a group that no API returns: its last rebalance, new records, commits."""
