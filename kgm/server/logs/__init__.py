"""What a cluster stores, in memory or in a data directory.

storage: the interface, and the storage in memory. data_directory: the storage on disk. shard_log: one partition of
`__consumer_offsets`. topic_log: the records of user topics; topic_files: these in files. flush: several files at
once."""
