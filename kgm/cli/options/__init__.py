"""Command-line options, checked, and the values made from them.

`shared_options` declares the options that every command takes; `run_options` merges them with the environment, files
and profiles. The other modules parse the options of individual commands."""
