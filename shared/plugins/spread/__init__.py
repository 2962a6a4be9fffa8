"""PodTopologySpread: pods that are alike are spread over the values of a node label."""
