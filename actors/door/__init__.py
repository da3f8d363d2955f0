"""How callers reach a host: one gRPC stream each, described in `door.proto`."""
