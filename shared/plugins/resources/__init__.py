"""Resources: room for what a pod asks for, and how nodes are rated by what is free.

NodeResourcesFit and NodeResourcesBalancedAllocation, the arithmetic of both on columns of nodes, and
what of it is kept for every node whichever pod is asked about.
"""
