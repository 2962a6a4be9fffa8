"""HTTP extenders: their configuration, what travels, the calls, and what an answer means."""
