"""`python -m kgm`: the command `kgm`, where its script is not on the path."""

from kgm.cli.entry import main

if __name__ == "__main__":
    main()
