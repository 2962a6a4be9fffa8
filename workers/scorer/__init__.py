"""The scorer: filters and scores on its own copy of the cluster, and proposes placements.

Start reading in `cycle.py` (what is decided), then `replica.py` (on what), then `scorer_loop.py`
(the I/O).
"""
