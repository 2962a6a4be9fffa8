"""The binder process, one of a pool: carries out the owner's orders against the API server.

Start reading in `bind_call.py` (one binding and the reading of its answer), then `binder_loop.py`
(orders in, outcomes back, epochs) and `recorder.py` (conditions and events, which never delay a
binding).
"""
