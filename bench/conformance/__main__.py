"""`python -m bench.conformance`, and what `berth conformance` runs."""

import sys

from bench.conformance.runner import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
