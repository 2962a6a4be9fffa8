"""API objects as they are decoded, a module for each API group. Start reading in `meta_v1.py`."""
