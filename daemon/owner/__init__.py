"""The cache-owner process, I/O half: sockets and timers around `daemon.core`. Decides nothing.

Start reading in `owner_loop.py`.
"""
