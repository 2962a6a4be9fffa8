"""The scheduling framework: extension points, profiles, and the engine that runs them on columns.

Start reading in `plugin_api.py` (what a plugin is), then `runtime.py` (one pod against the whole
cluster), `nominated_pods.py` (the same with pods that may come) and `engine.py` (kept up from one
placement to the next).
"""
