"""What the topic `__consumer_offsets` has of a group and no API returns: its last rebalance, new records, commits."""
