"""`python -m relay`: the same as the command `relay`, where no PATH leads to it."""

from __future__ import annotations

from relay.cli import main

if __name__ == "__main__":
    main()
