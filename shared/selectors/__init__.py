"""What pods say of nodes and of other pods: by labels, by taints, by terms of affinity. Apart from the
plugins because several of them, and what keeps pods by class, ask the same.
"""
