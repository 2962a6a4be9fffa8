"""`berth soak`: a whole berth under traffic for minutes or days. Start reading in `soak_run.py`."""
