"""The scheduling queue: which pod is tried next. Start reading in `scheduling_queue.py`."""
