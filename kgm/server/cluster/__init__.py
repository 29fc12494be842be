"""Brokers, topics, shards and transactions, without sockets and without a clock."""
