"""A running berth as people look at it: in a browser, on a terminal, in a report.

One source of figures (`overview.py`) for `berth status`, `berth top` and the live page, and one hand
(`documents.py`, `plots.py`) for every page that berth makes.
"""
