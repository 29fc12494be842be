"""What every tool has: `kgm completion`, `kgm help` and `kgm version`, and the examples of all commands."""
