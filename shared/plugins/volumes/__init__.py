"""Volumes: those that a pod has, those that it could have, and which nodes reach them."""
