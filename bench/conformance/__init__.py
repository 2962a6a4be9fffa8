"""Replays recorded decisions of kube-scheduler and says field by field where ours differ.

Start reading in `runner.py`. The corpus lies in tests/conformance, its format in the README.md
beside it.
"""
