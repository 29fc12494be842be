"""What the topic `__consumer_offsets` tells of a group that no API does: its last rebalance, new records, commits."""
