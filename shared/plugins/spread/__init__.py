"""PodTopologySpread: pods that are alike are spread over the values of a node label.

The plugin, the constraints of a pod with the profile's own, which nodes count, and the counts.
"""
