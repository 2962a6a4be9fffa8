"""The vocabulary that all processes speak. Never imports daemon, workers or bench."""
