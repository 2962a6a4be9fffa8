"""Names for the numbers and strings that identify things, so that types tell them apart."""

from typing import NewType

PodUid = NewType("PodUid", str)
"""metadata.uid of a pod: the identity of a pod everywhere in berth."""

PodKey = NewType("PodKey", str)
"""`namespace/name`, for people: messages, logs, events."""

NodeName = NewType("NodeName", str)
NodeRow = NewType("NodeRow", int)
"""Index of a node in the columns; recycled when a node is gone."""

Generation = NewType("Generation", int)
"""The owner's one counter, raised by each change of a node's aggregate."""

Epoch = NewType("Epoch", int)
"""Which life of the owner a frame belongs to; a new number at each start."""

ClassId = NewType("ClassId", int)
"""A pod class (pods that no plugin can tell apart), numbered by the owner within an epoch."""

WorkerIndex = NewType("WorkerIndex", int)
BinderIndex = NewType("BinderIndex", int)
