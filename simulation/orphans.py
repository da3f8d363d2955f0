"""Workers end with the process that started them."""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing.connection import wait
from threading import Thread


def end_with_parent() -> None:
    """End this worker once its parent has ended, even by SIGKILL; else it would never end."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "called in a worker"

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    Thread(target=watch, daemon=True).start()
