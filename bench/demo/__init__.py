"""`berth demo`: a whole cluster's pods through berth and the simulated API server, with a report.

Start reading in `demo_run.py` (what happens when). The check at the end (`cluster_check.py`) knows
nothing of the scheduler's code.
"""
