"""The pages and scripts of generate_manual.py: `tree` reads the commands, and each format has a module."""
