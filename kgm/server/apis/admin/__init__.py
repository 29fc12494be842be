"""What administrators and their tools ask: topics, configurations, and who leads which partition of
`__consumer_offsets`. Any broker does it. Kafka: ReplicationControlManager, ConfigHelper."""
