"""What the members of Kafka Streams and Kafka Connect write into subscriptions and assignments: bytes in, values out.

- `bounded_reader`: reading within bounds
- `streams`: the user data of Streams' assignor, and what follows from it for a group
- `streams_assignors`: who runs which task of a Streams application, as its leader works it out
- `sticky_tasks`: the same with the sticky assignor
- `task_copies`: who else has the tasks of Streams members that go
- `connect`: the metadata and assignments of Connect's workers
- `connect_assignors`: who runs what in a Connect group, as its leader works it out

Anyone who may join a group may write these bytes: decoding raises only DecodeError."""
