"""What a bounce does to a Kafka Streams application: of the classic protocol, if it rebalances, and of the streams
protocol (KIP-1071), where the coordinator places tasks.

group       the application that a plan starts with, and what no broker knows about it
processes   processes that stop and start, while a plan is played once
play        the classic protocol: sessions that end, rounds of revocation, probing rebalances
bounce      `simulate_streams`: many plays, combined into a prediction
coordinated_group, coordinated_play, coordinated_bounce     the same for the streams protocol
"""
