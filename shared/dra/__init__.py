"""Dynamic resource allocation: which devices a claim gets on a node, and the CEL that selects them.

Apart from the plugin because none of it knows of extension points: claims, slices and classes go in,
an allocation comes out. Start reading in `allocator.py`.
"""
