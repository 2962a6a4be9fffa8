"""Load, simulation and measurement.

Imports anything; nothing imports it but the command line and tests.
"""
