"""ImageLocality: nodes that have a pod's images already, rated by the size of these."""
