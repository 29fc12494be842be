"""Scenes that bring a group into each situation, on a real Kafka unless noted otherwise. A scene gets its stage, and
leaves it in the state in which the question is asked."""
