"""What a cluster stores, in memory or in a data directory.

storage: the interface, and the in-memory storage. data_directory: the storage on disk. shard_log: one partition of
`__consumer_offsets`. topic_log: the records of user topics; topic_files: the same, on disk. flush: flushes several
files at the same time. append_warnings: tells when a log cannot be written, and when it can again."""
