"""Ids of tierledger's own clients that register as brokers do; Kafka gives none so high."""

from __future__ import annotations

REPLAY = 2**31 - 1
"""A replay follows all partitions under it, to ask questions."""

IMPORTER = 2**31 - 2
"""Records are imported under it."""

OBSERVER = 2**31 - 3
"""That of `handover`."""

NO_BROKERS = {IMPORTER, OBSERVER}
"""Those that `status` leaves out: they come and go with the service's own work."""
