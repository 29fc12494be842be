"""What a bounce does to a group of Kafka Connect, whose workers share connectors and tasks.

group       the group that the plan starts with
play        the plan played once: workers, the delay after a loss, the rebalances that workers ask for
bounce      `simulate_connect`: many plays, combined into a prediction
"""
