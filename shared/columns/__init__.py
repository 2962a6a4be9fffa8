"""The cluster as columns: one array entry per node row, interned ids in place of strings.

The owner's cache writes a `NodeTable`; scorers hold copies made only from snapshots
(`delta.py`). Start reading in `table.py`.
"""
