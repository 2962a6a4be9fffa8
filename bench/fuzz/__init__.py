"""Hostile inputs by the thousand, made from a seed, for parts that read what anybody may write."""
