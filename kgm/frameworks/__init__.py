"""What the members of Kafka Streams and Kafka Connect write into subscriptions and assignments: bytes in, values out.

- `bounded_reader`: reading within bounds
- `streams`: the user data of Streams' assignor, and what it means for the group
- `streams_assignors`: which member runs which task of a Streams application, as its leader computes it
- `sticky_tasks`: the same with the sticky assignor
- `task_copies`: which remaining members have copies of the tasks of departing Streams members
- `connect`: the metadata and assignments of Connect's workers
- `connect_assignors`: which worker runs what in a Connect group, as its leader computes it

Anyone who is allowed to join a group can write these bytes, so decoding raises nothing but DecodeError."""
