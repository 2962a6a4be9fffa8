"""The simulation: all of berth in one thread, on a virtual clock, with every fault that a seed names.

`schedule.py` has the clock and the one list of what happens next; `virtual_loop.py` runs asyncio code
and its connections on it, `links.py` the channels between processes, `sim_processes.py` the real code of
each process, `berth.py` the supervisor that starts them. `sim_plan.py` and `plan_*.py` draw from a seed
what happens to the cluster and what goes wrong (`poison.py`: objects that should not be, `deadly.py`:
pods that no process survives), `world.py` does it, and `controllers.py` what a cluster's controllers
would. `judge.py` looks after each step, `oracle.py` is the slow second opinion on every placement,
`sim_run.py` plays a seed, `shrink.py` makes the story of one that failed short.
"""
