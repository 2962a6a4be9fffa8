"""Unit tests of what is asked without being done."""
