"""The engine: what plugins say of all nodes, kept from one placement to the next.

Above the framework and its plugins, which know nothing of it. An `Evaluation` keeps what the plugins say
to pods that are alike: masks (`class_filters.py`) and a column for each score (`class_scores.py`), over
all nodes for the scorer, over the few that were proposed for the owner. What one more such pod makes of
the state that a row is in (`row_states.py`, `state_answers.py`) lets a scorer place many in a run. Pods
that have no like share the evaluation of their family (`families.py`). Start reading in `evaluation.py`.
"""
