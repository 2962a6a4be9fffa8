"""The parent process: starts, watches, restarts and stops the others. Never imports core.

Start reading in `supervise.py`; which processes there are and with which arguments is in `children.py`.
"""
