"""What a real kube-apiserver answered, and that the simulated one answers the same."""
