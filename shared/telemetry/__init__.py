"""Logs and metrics. Start reading in `log.py`; what is counted is listed in `metrics.py`."""
