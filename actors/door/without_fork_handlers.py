"""If this is imported before gRPC, gRPC does not install its `fork()` handlers.

These also run in the child of each subprocess that Python starts with `preexec_fn`, as Ray and
PySpark do, and abort a fifth of these children while a stream is open. No code here uses a
stream in a forked process. gRPC reads the variable when it is imported, so a program that
imports gRPC first has to set it itself. A value that is set already is kept.
"""

import os

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # noqa: TID251 - gRPC has no setting.
