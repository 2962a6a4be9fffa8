"""Benchmarks: workloads in the format of kube-scheduler's scheduler_perf, run against berth.

Start reading in `perf_run.py` (one run, in order), then `executor.py` (what each opcode does). Where the
objects go is behind `cluster_api.py`: into a feeder that speaks to owner and scorers directly
(`memory_cluster.py`), or to an API server (`http_cluster.py`). Results are in `result.py`, how
throughput is sampled in `samples.py`.

The clock runs from the first creation of a measured pod. In memory, what an earlier operation created
(nodes above all) is then known to the owner, which has published it to the scorers; nothing was
evaluated with it, which is part of what is measured.
"""
