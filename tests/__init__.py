"""Test suite; helpers import as `tests.support.builders`."""
