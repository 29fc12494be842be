"""What is written in `__consumer_offsets`: the records, and the log on disk. (The caller provides the time.)

- `record_types`, `record`: the record types of Kafka's group coordinator, and a record as bytes: the key with its type
  in front, the value with its version in front; which versions brokers write
- `messages/`: keys and values, generated from the schemas in Kafka's group-coordinator jar
- `batch`, `compression`: Kafka's record batches
- `segment`, `log`, `compaction`: a file of batches, the directory of a partition, and its cleaner
- `segment_sizes`: the sizes of the segments, to notice missing ones; `files`: opening files without following links
- `log_reader`, `transactions`: what consumers read from a log, and which of its transactions are open or were aborted
"""
