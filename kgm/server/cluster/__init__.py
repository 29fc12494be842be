"""What the brokers of a cluster share; no sockets and no clock.

cluster: the whole, and what happens to it. nodes: the brokers, and which of them leads which partition of
`__consumer_offsets`. shard, shards: the group coordinators, one for each of these partitions. transaction_coordinator:
transactions. topics, topic_records: user topics, what Produce writes and what Fetch waits for. pending_responses:
requests without a response."""
