"""What runs the plugins: those of a profile, and a pod against all nodes by them.

Start reading in `framework.py` (one pod against the whole cluster) and `prepared_pod.py` (the same with
pods that may come). `shared/engine/` keeps what comes of it from one placement to the next.
"""
