"""The cache owner's decisions, with no I/O, clock, thread or randomness. Start reading in `state.py`."""
