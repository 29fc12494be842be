"""The values that every layer uses. Nothing here connects to a cluster.

- `uuids`: Kafka's text for UUIDs
- `error_code`, `errors`: Kafka's error codes, and the tree of kgm's errors with their exit codes
- `assignment`: who owns what, and what moves; `changes`: what has changed between two snapshots
- `snapshot`: `GroupSnapshot`, which `kgm describe -o json` prints and `simulate-bounce`, `diff` and `assign` read
- `work`: what members of Kafka Streams and Connect run in addition to partitions
- `client_settings`: the settings of Kafka clients, and what they mean to kgm
- `gc_threshold`: the garbage-collector threshold of the process
"""
