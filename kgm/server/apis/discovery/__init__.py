"""Where things are: brokers, topics and coordinators.

Brokers are named by the host at which the client reached this one, so that none has to be configured. Any broker serves
any partition of a user topic, as all share one copy; Metadata spreads the leaders, and so the clients."""
