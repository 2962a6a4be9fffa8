"""A simulated kube-apiserver in a process of its own: real HTTP, objects in memory.

Start reading in `router.py` (what a request turns into) and `store.py` (versions, history, 410).
Everything below `http_protocol.py` and `server.py` is free of I/O and clocks: time is an argument.
`tests/wire` compares its answers with those of a kube-apiserver v1.36.2.
"""
