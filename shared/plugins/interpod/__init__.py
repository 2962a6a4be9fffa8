"""InterPodAffinity: pods near to other pods, or apart from them, with the counts that both need."""
