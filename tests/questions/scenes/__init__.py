"""What brings a group into each situation, on a real Kafka where nothing else is said. A scene gets its stage, and leaves
it as the question finds it."""
