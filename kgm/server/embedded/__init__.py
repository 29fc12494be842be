"""Ways to run a cluster with its listeners.

server: in the running event loop. foreground: until a signal (`kgm serve`). in_thread: in a thread of a process that
does something else, such as a test. group_snapshot, group_watch: what such a test can see of a group.
quiet_collections: garbage collection while no client waits."""
