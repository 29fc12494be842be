"""Groups described again and again: what happened to them, and whether a condition is met.

`kgm.client.poller` describes the groups and reads what their coordinators wrote. `watched_group` turns one description
after another into events, counts and a verdict, without a clock; `watch` is the loop of `kgm watch` around it. `wait`
is the loop of `kgm wait`, `conditions` are what it waits for. Both loops get their clock, a `Timekeeper`, from outside,
and print nothing: `watch` hands events to a `WatchObserver`, and both return a result."""
