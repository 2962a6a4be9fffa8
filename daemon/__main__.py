"""`python -m daemon`: the same as the console command `berth`."""

import sys

from daemon.cli import main

if __name__ == "__main__":
    sys.exit(main())
