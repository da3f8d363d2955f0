"""How callers reach a host: one gRPC stream each, described in `door.proto`."""

import os

# gRPC reads this once, when it is first used. Its handlers of fork() run in the child of any
# subprocess that Python starts with preexec_fn (Ray and PySpark do), and abort a few per cent
# of them while a stream is open. Nothing here uses a stream in a forked process.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # noqa: TID251 - gRPC has no other way.
