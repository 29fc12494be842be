"""What a bounce does to a Kafka Streams application: of the classic protocol, if it rebalances, and of the streams
protocol (KIP-1071), where the coordinator places tasks.

group       the application that it begins with, and what no broker knows of it
processes   processes that stop and start, while a plan is played once
play        the classic protocol: sessions that end, rounds of revocation, probing rebalances
bounce      `simulate_streams`: many plays, and what they say together
coordinated_group, coordinated_play, coordinated_bounce     the same for the streams protocol
"""
