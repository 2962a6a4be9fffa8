"""The simulation, its judge and its oracle."""
