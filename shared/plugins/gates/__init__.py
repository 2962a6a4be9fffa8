"""What lets a pod into the active queue, and in which order: SchedulingGates, PrioritySort."""
