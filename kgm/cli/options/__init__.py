"""Options of the command line, checked, and the values made from them.

`shared_options` declares what every command takes, `run_options` merges it with the environment, files and profiles.
The other modules parse options of single commands."""
