"""The engine: what plugins say of all nodes, kept from one placement to the next.

Above the framework and its plugins, which know nothing of it. Start reading in `engine.py` (a class of
pods over all nodes) and `checker.py` (the owner's look at the nodes that were proposed).
"""
