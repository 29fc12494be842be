"""The types that pass between the other packages of the server, and depend on none of them.

exchange: requests and the events that answer them. limits: what clients may use, and `--set`. saved_state, transaction:
what storage keeps. offsets_topic: its name. served_versions: the highest version of each API."""
