"""Hash codes and iteration orders of Java's (and Scala's) collections, where Kafka's result depends on them.

Kafka iterates over hash maps and sets: the sticky assignors walk a map of members, the coordinator walks the topics and
partitions of a target assignment. These orders are not random; they follow from the hash codes, the size of the table
and, inside one bucket, the order of insertion, so they can be computed.

- `strings`: `String.hashCode`, `String.length`, `String.compareTo`
- `uuids`: `Uuid.hashCode`, `Uuid.compareTo`
- `partitions`: the partition of `__consumer_offsets` for a group id, `TopicPartition.hashCode`
- `hash_map`, `hash_set`: the order of `java.util.HashMap` and `HashSet`
- `priority_queue`: the order of `java.util.PriorityQueue` where elements are equal
- `timeline_hash_map`: the order of Kafka's `TimelineHashMap`
- `scala_set`: the order of Scala's immutable `Set`
- `scala_map`: the orders of Scala's mutable and immutable `HashMap`
- `re2j`: regular expressions as brokers accept and match them

No module here depends on anything else in kgm.
"""
