"""The JSON of the commands that plan a change: `kgm drain`, `kgm plan`, `kgm rollout`,
`kgm scale-in`."""
