"""`python -m kgm`: runs the `kgm` command where its script is not on the PATH."""

from kgm.cli.entry import main

if __name__ == "__main__":
    main()
