"""Kubernetes objects as far as a scheduler needs them, and how to reach the API."""
