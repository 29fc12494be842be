"""Groups described repeatedly: what happened to them, and whether a condition is met.

`kgm.client.poller` describes the groups and reads what their coordinators wrote. `watched_group` turns successive
descriptions into events, counts and a verdict, without a clock; `watch` is the loop of `kgm watch` around it. `wait` is
the loop of `kgm wait`, `conditions` are what it waits for. Both loops are given their clock, a `Timekeeper`, and print
nothing: `watch` passes events to a `WatchObserver`, and both return a result."""
