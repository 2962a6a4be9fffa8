"""The scheduling framework: extension points, profiles, and the engine that runs them on columns.

Start reading in `plugin_api.py` (what a plugin is), then `runtime.py` (one pod against the whole
cluster) and `engine.py` (the same, kept up from one placement to the next).
"""
