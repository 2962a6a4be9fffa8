"""What demo, soak and benchmark have in common: a berth beside an API server, and a witness.

Start reading in `watched_processes.py` (what is started) and `pod_watch.py` (the witness).
"""
