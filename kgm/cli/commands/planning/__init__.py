"""Commands that plan a change of many members before it is made (`kgm drain`, `kgm plan`, `kgm scale-in`), and the one
that runs it: `kgm rollout`."""
