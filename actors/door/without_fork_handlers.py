"""Importing this switches gRPC's handlers of `fork()` off, unless the environment sets them.

They also run in the child of each subprocess that Python starts with `preexec_fn`, as Ray and
PySpark do, and abort a fifth of these while a stream is open. Nothing here uses a stream in a
forked process. gRPC reads the variable once, when it is first used.
"""

import os

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # noqa: TID251 - gRPC reads no setting.
