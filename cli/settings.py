"""The environment variables of the `tierledger` command; read here and nowhere else."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

STORE_VARIABLE = "TIERLEDGER_STORE"
"""The store's URL where `--store` is not given."""

CLUSTER_VARIABLE = "TIERLEDGER_CLUSTER"
"""The Kafka cluster's id where `--cluster` is not given."""


DOOR_VARIABLES = {
    "TIERLEDGER_CA": "door.ssl.ca.location",
    "TIERLEDGER_CERTIFICATE": "door.ssl.certificate.location",
    "TIERLEDGER_KEY": "door.ssl.key.location",
    "TIERLEDGER_TOKEN": "door.token.location",
}
"""Files with which a command comes in at doors, and the client's setting for each."""

TIER_KEYS_VARIABLE = "TIERLEDGER_TIER_KEYS"
"""The keys of encrypted segments in the three-object layout: ID=FILE,ID=FILE."""


def tier_options() -> Mapping[str, str]:
    """What the environment adds to a tier's URL."""
    keys = os.environ.get(TIER_KEYS_VARIABLE)
    return {"keys": keys} if keys else {}


def door_config() -> Mapping[str, str]:
    """The settings of the files that the environment names."""
    return {name: os.environ[key] for key, name in DOOR_VARIABLES.items() if key in os.environ}


def store_config(option: str | None) -> Mapping[str, object]:
    """The settings of the store: from `option`, else the environment, else the default."""
    url = option or os.environ.get(STORE_VARIABLE)
    return {"metadata.storage.url": url} if url else {}


def cluster_setting(option: str | None) -> str | None:
    """The chosen cluster: `option`, else the environment's; none if neither is given."""
    return option or os.environ.get(CLUSTER_VARIABLE)
