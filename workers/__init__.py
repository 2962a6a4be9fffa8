"""The processes that the supervisor starts many of: scoring workers and binders.

They never import `daemon`; they meet it as messages (`shared/messages`).
"""
