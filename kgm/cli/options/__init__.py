"""From the words of the command line, the environment, files and profiles to checked values."""
