"""What Java's and Scala's hashes and collections do, where an answer of Kafka's depends on it."""
