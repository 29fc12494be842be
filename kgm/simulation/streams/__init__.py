"""What a bounce does to a Kafka Streams application of the classic protocol that rebalances.

group       the application that it begins with, and what no broker knows of it
play        the plan played once: sessions that end, rounds of revocation, probing rebalances
tasks       where each task runs, and for how long it does not
bounce      `simulate_streams`: many plays, and what they say together
"""
