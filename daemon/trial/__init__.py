"""What berth would do, asked without doing it: the commands explain, what-if and replay."""
