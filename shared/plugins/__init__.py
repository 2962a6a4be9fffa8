"""The in-tree plugins, named as in kube-scheduler; no folder here imports another.

Start reading in `node_filters.py`, then `node_resources_fit.py`. How to write one: docs/plugins.md.
"""
