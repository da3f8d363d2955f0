"""The door by which clients reach a host: one gRPC stream each, described in `door.proto`."""

from tierledger.actors.door import without_fork_handlers  # noqa: F401 - Before gRPC itself.
