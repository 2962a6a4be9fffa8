"""Asks Linux for short turns on a core, so that who wakes for a pod need not wait for a long one to end.

A pod that comes alone wakes adapter, owner and binder one after the other, each for less than a
millisecond, on a machine where the API server and others keep the cores busy. Who is in the middle of
its turn there is interrupted only for somebody who asks for a shorter one. Shares of the core stay as
they are: this needs no privilege and takes nothing from anybody.

Source: `sched_runtime` of sched_setattr(2) for SCHED_OTHER (Linux 6.12; `__setparam_fair` in
kernel/sched/fair.c). An older kernel takes it and does as before.
"""

import ctypes
import os
import platform
import struct
from typing import Final

from shared.telemetry.log import EventLog

log: Final = EventLog("supervisor")

SLICE_NS: Final = 100_000
"""The least that the kernel gives; its own is 0.7 ms with one core, and up to 2.8 ms with eight."""
_SCHED_ATTR: Final = struct.Struct("=IIQiIQQQ")
"""`struct sched_attr`: its size, policy, flags, nice, priority, runtime, deadline and period."""
_SCHED_SETATTR: Final = {
    "x86_64": 314,
    "aarch64": 274,
    "riscv64": 274,
    "ppc64le": 355,
    "s390x": 345,
}
"""The system call's number; glibc has had a function for it since 2.41 only."""


def ask_for_short_turns() -> None:
    """For this thread and all that it starts from now on, processes and threads. Who was given another
    policy by whoever started berth keeps it; who cannot ask works with the turns of all."""
    number = _SCHED_SETATTR.get(platform.machine())
    if number is None or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    attributes = _SCHED_ATTR.pack(_SCHED_ATTR.size, os.SCHED_OTHER, 0, nice, 0, SLICE_NS, 0, 0)
    if ctypes.CDLL(None, use_errno=True).syscall(number, 0, attributes, 0):
        log.info("short_turns_refused", reason=os.strerror(ctypes.get_errno()))
