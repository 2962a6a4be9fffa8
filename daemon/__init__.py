"""The control side: supervisor, watch adapter and cache owner.

Start reading in `daemon/core/state.py` (what the owner decides) and `daemon/supervisor/supervise.py`
(how the processes are kept alive).
"""
