"""Sockets between the processes; the only package that imports zmq.

Start reading in `channels.py` (which channels there are and what each does under pressure), then
`owner_sockets.py`, `scorer_sockets.py` and `async_peer.py` (one flavour for each kind of process).
"""
