"""What is written in `__consumer_offsets`: the records, and the log on disk. (The caller provides the time.)

- `record_types`, `record`: the record types of Kafka's group coordinator, and a record as bytes: the type in front of
  the key, the version in front of the value; which versions brokers write
- `messages/`: keys and values, generated from the schemas in Kafka's group-coordinator jar
- `batch`, `compression`: Kafka's record batches
- `segment`, `log`, `compaction`: a file of batches, the directory of a partition, and its cleaner
- `log_reader`, `transactions`: what consumers read of a log, and which transactions are open in it or were aborted
"""
