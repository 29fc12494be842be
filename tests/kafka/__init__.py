"""Real Kafka for tests and benchmarks: brokers, clients and Kafka's own classes.

Nothing here is a fake. `jars` fetches Kafka's jars once into a cache outside the repository,
`broker` runs brokers from them, `java_tools` compiles and starts the small Java drivers next to this file, `oracle`
asks Kafka's own message classes, `members` runs group members that can be stopped cleanly or killed. Every process
started here is ended by its own id, at the latest when Python exits.
"""
