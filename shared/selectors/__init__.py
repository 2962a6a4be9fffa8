"""What pods say of nodes and of other pods: by labels, by taints, by terms of affinity.

Read once from the objects of the API, then asked of single objects or of whole columns of nodes. Apart
from the plugins because several of them, and what keeps pods by class, ask the same.
"""
