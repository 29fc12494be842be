"""The names that a shell completes: `cache` stores them, `candidates` answers `kgm __complete`."""
