"""The process that answers /livez, /readyz, /healthz, /metrics and /configz over HTTP.

A process of its own: what asks too often, or brings it down, takes nothing from scheduling. It knows
nothing by itself; it asks the owner, the supervisor's list and the kernel (`facts.py`).
Start reading in `pages.py`.
"""
