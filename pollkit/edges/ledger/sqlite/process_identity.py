"""Which process owns a lease, and whether it is certainly dead.

A process is identified by its host, its pid and its start time. The host is the boot of the kernel
and the PID namespace: containers may share a file and a kernel, but they don't see each other's
processes. On a system without /proc the host is the host's name, and the start time is unknown.

Never is a live process taken for dead: one that is stopped (SIGSTOP) or that sleeps with its
laptop is alive, and a process of another host may be. One is dead only if this host has no process
with its pid, or has another one, with another start time, or if it is a zombie.
"""

import os
from typing import List, NamedTuple, Optional

UNKNOWN = ""  # a host or start time that equals no other


class ProcessIdentity(NamedTuple):
    """A process, as another process of the same host can recognize it."""

    host: str
    pid: int
    start: str  # the start time in ticks of the kernel's clock


def current_process(boot: str) -> ProcessIdentity:
    """This process; `boot` names the boot of this host (Clock.boot)."""
    pid = os.getpid()
    try:
        # A container may have the /proc of another PID namespace: its pids are of no use.
        is_own_proc = os.readlink("/proc/self") == str(pid)
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        has_proc = os.path.exists("/proc/self")
        return ProcessIdentity(UNKNOWN if has_proc else _host_name(), pid, UNKNOWN)
    fields = _read_stat(pid) if is_own_proc else None
    if fields is None or not boot:
        return ProcessIdentity(UNKNOWN, pid, UNKNOWN)
    return ProcessIdentity("%s %s" % (boot, namespace), pid, fields[19])


def is_dead(process: ProcessIdentity, here: ProcessIdentity) -> bool:
    """Whether a process is certainly dead, as seen from this process (`here`)."""
    is_same_host = process.host != UNKNOWN and process.host == here.host
    if not is_same_host or os.name != "posix":  # elsewhere os.kill would end the process
        return False
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # it exists, but belongs to another user
    if process.start == UNKNOWN:
        return False
    fields = _read_stat(process.pid)
    if fields is None:
        return False
    is_zombie = fields[0] in ("Z", "X") and int(fields[17]) <= 1  # without other threads
    return is_zombie or fields[19] != process.start


def _read_stat(pid: int) -> Optional[List[str]]:
    """The fields of /proc/PID/stat from the third on (proc(5)); None if it can't be read.

    The second field, the name of the program, may contain spaces and parentheses.
    """
    try:
        with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return fields if len(fields) > 19 else None


def _host_name() -> str:
    return "host " + os.uname().nodename if hasattr(os, "uname") else UNKNOWN
