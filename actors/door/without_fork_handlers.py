"""Importing this before gRPC leaves gRPC without its handlers of `fork()`.

They also run in the child of each subprocess that Python starts with `preexec_fn`, as Ray and
PySpark do, and abort a fifth of these while a stream is open. Nothing here uses a stream in a
forked process. gRPC reads the variable while it is imported, so a program that imports gRPC
first sets it itself. One that is set already is kept.
"""

import os

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # noqa: TID251 - gRPC has no setting.
