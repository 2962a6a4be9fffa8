"""DefaultPreemption: makes room for a pod by letting less important ones go.

`default_preemption.py`: who may preempt, and how many nodes are looked at. `victim_selector.py`: who
has to go from a node, of those whom `potential_victims.py` puts in order by priorities, budgets and
elastic gangs. The search over the nodes, and which of them is the best, are the scorer's
(`workers/scorer/evaluator.py`); the owner checks a proposal by the same rules
(`daemon/core/nominations.py`).
"""
