"""Keys and values of __consumer_offsets in Apache Kafka 4.3.0, one module each. Generated: do not edit."""
