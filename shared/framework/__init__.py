"""What a plugin is made of, and what it may read: the part of berth that the author of a plugin knows.

Start reading in `plugin_api.py`. What runs plugins is in `runtime/`.
"""
