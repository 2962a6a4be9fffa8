"""The in-tree plugins, one file each, named as in kube-scheduler. No plugin imports another.

Start reading in `node_filters.py`, then `node_resources_fit.py`. How to write one: docs/plugins.md.
"""
