"""A node by itself: its name, labels, taints, host ports and declared features."""
