"""What administrators and their tools ask for: topics, configurations, and which broker leads which partition of
`__consumer_offsets`. Any broker can answer. Kafka: ReplicationControlManager, ConfigHelper."""
