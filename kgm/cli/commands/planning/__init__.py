"""Commands that plan a change to many members in advance (`kgm drain`, `kgm plan`, `kgm scale-in`), and the command
that carries it out: `kgm rollout`."""
