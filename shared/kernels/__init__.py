"""Array functions that plugins are made of; each has a slow plain-Python twin in tests.

They know nothing of plugins, profiles or pods' life, so that they can be measured and compared
alone. Start reading in `resources.py`.
"""
