"""What is written in `__consumer_offsets`: keys and values of every record type of Kafka's group coordinator; and the
log itself, on disk.

`messages/` is generated from the schemas in Kafka's group-coordinator jar; `record` puts the record type in front of
keys and the version in front of values, and picks the versions that Kafka's brokers write. `batch` and `compression`
are Kafka's record batches, `segment` a file of them, `log` a partition's directory, `compaction` its cleaner.

Files are read and written here, and the time is told by the caller.
"""
