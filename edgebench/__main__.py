"""`python -m edgebench` is the command `edgebench`."""

from edgebench.cli import main

if __name__ == "__main__":
    main()
