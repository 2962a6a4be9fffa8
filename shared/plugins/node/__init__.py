"""A node by itself: its name, labels, taints, host ports and declared features.

NodeName, NodeUnschedulable, NodeAffinity, TaintToleration, NodePorts and NodeDeclaredFeatures: each
reads the node and the pod, and nothing of other nodes.
"""
