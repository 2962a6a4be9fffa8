"""DefaultPreemption: makes room for a pod by letting less important ones go. The search over the nodes,
and which of them is the best, are the scorer's (`workers/scorer/evaluator.py`); the owner checks a
proposal by the same rules (`daemon/core/nominations.py`).
"""
