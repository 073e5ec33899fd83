"""`python -m cell`: the same as the `cell` command."""

from __future__ import annotations

import sys

from cell.cli import main

if __name__ == "__main__":
    sys.exit(main())
