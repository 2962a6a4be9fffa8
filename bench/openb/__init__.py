"""The openb trace: nodes and pods of a production GPU cluster. Data and licence are in `data/`."""
