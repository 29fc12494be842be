"""`kgm rollout`, with real clients behind a command that starts and stops them."""
