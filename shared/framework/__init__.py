"""The scheduling framework: extension points and profiles.

Start reading in `plugin_api.py` (what a plugin is), then `runtime.py` (one pod against the whole
cluster) and `prepared_pod.py` (the same with pods that may come). `shared/engine/` keeps what comes of
it from one placement to the next.
"""
