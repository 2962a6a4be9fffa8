"""Volumes: those that a pod has, those that it could have, and which nodes reach them.

VolumeBinding, VolumeRestrictions, VolumeZone and NodeVolumeLimits, over two indexes: which pods use
which volumes (`volume_index.py`), and which volumes and capacity are free (`volume_catalog.py`).
"""
