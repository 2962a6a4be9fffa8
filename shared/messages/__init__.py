"""The wire protocol between the processes, one file per direction.

Rules: every message is a frozen, array-like msgspec Struct with a short tag that is never reused
for anything else; a change of bytes is a new PROTOCOL_VERSION (`codec.py`); receivers decode to a
type, always. Start reading in `to_scorer.py`.
"""
