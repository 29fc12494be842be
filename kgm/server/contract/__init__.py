"""Values that pass between the other rooms of the server; they depend on none of these.

exchange: requests and the events that answer them. limits: what clients may use, and `--set`. saved_state,
transaction: what storage keeps. offsets_topic: its name."""
