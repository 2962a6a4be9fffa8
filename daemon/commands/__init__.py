"""What each subcommand of `berth` does, one file each; `daemon/cli.py` only reads the arguments."""
