"""Where to find brokers, topics and coordinators.

Responses name brokers by the host at which the client reached this one, so no host has to be configured. Any broker
serves any partition of a user topic, since all share one copy; Metadata spreads the leaders, and thereby the
clients."""
