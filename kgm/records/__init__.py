"""What is written in `__consumer_offsets`: keys and values of every record type of Kafka's group coordinator.

`messages/` is generated from the schemas in Kafka's group-coordinator jar; `record` puts the record type in front of
keys and the version in front of values, and picks the versions that Kafka's brokers write.
"""
