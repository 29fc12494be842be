"""What generate_manual.py writes: `tree` reads the commands, one module a format."""
