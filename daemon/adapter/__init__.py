"""The watch adapter: a process that lists and watches the cluster and tells the owner what changes.

Start reading in `kind_watch.py` (list, watch, resume, re-list) and `kind_feed.py` (bytes to
messages). The adapter keeps no copy of the cluster: the owner applies a re-list as a difference.
"""
