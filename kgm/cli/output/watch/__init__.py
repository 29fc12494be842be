"""How `kgm watch` shows what happens: on a `screen` at a terminal, as `event_lines` in a pipe, or collected for a
document at the end. Each is a `kgm.operations.watch.watch.WatchObserver`."""
