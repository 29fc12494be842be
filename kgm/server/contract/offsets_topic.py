"""The name of the internal topic `__consumer_offsets`. `kgm.java.partitions` says which partition a group is in."""

OFFSETS_TOPIC = "__consumer_offsets"
