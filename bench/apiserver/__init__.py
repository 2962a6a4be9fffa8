"""A simulated kube-apiserver in a process of its own: real HTTP, objects in memory.

Start reading in `router.py` (what a request turns into) and `store.py` (versions, history, 410).
Everything below `http_protocol.py` and `http_server.py` is free of I/O and clocks: time is an argument.
`tests/wire` compares its answers with those of a kube-apiserver v1.36.2.

Not there: HTTP/2, protobuf, YAML and tables (clients that offer JSON as well get JSON), server-side
apply and managedFields, dry runs, users and RBAC (one bearer token at most), webhooks, most of the
schema (unknown members are kept), and controllers, of which two are played by the server itself:
the kubelet's end of a pod that is deleted with grace, and the emptying of a deleted namespace.
`POST /simulation/compact` forgets all history, so that older versions answer 410.
"""
