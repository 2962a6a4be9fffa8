"""The scheduling queue: which pod is tried next, and what wakes one that could not be placed.

Start reading in `scheduling_queue.py`, which draws the places that a pod can be in.
"""
