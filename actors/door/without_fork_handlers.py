"""If this is imported before gRPC, gRPC does not install its `fork()` handlers.

These also run in the child of each subprocess that Python starts with `preexec_fn`, as Ray and
PySpark do, and abort a fifth of these children while a stream is open. No code here uses a
stream in a forked process. gRPC reads the variable when it is imported, so a program that
imports gRPC first has to set it itself. A value that is set already is kept.

So gRPC works in no process that is forked while it is at work, whoever uses it there: such a
process is told so at once, and does not wait for answers that cannot come.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from tierledger.storage.own_process import OwnProcess

_SWITCH: Final = "GRPC_ENABLE_FORK_SUPPORT"
_MODULE: Final = "grpc._cython.cygrpc"
_THREADS: Final = {"event_engine", "grpc_global_tim"}
"""Names of gRPC's own threads, as the system cuts them."""

_has_read_it = _MODULE in sys.modules
os.environ.setdefault(_SWITCH, "0")  # noqa: TID251 - gRPC has no setting.


@cache
def grpc_process() -> OwnProcess:
    """The first process that uses gRPC: after that none that is forked from it can."""
    import grpc.aio  # noqa: PLC0415 - It takes long, and most programs that fork have no need.

    # gRPC shuts itself down when the last of its objects is collected. In a forked child, which
    # lacks its thread, that never ends, and hangs whatever the child was doing. So this process
    # and its children keep gRPC running as long as they live.
    grpc.aio.init_grpc_aio()
    return OwnProcess(
        "gRPC",
        "configure the first manager after the fork, or use multiprocessing's spawn or "
        "forkserver",
    )


def _before_fork() -> None:
    """Note that gRPC is at work here, which other code of the program may have begun."""
    if _MODULE in sys.modules and not grpc_process.cache_info().currsize and _is_at_work():
        # gRPC needs an event loop in the thread that forks. Without one the child waits 3 s.
        with suppress(RuntimeError):
            grpc_process()


def _is_at_work() -> bool:
    """Whether this process has gRPC's threads; only Linux tells."""
    with suppress(OSError):
        for thread in Path("/proc/self/task").iterdir():
            with suppress(OSError):  # It has ended.
                if (thread / "comm").read_text().strip() in _THREADS:
                    return True
    return False


if not _has_read_it:  # Else gRPC's own handlers are at work.
    os.register_at_fork(before=_before_fork)
