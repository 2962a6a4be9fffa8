"""The cache-owner process, I/O half. Start reading in `owner_loop.py`."""
