"""The environment variables of the `tierledger` command; read here and nowhere else."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tierledger.actors.door.addresses import SCHEME, doors_in
from tierledger.actors.door.addresses import names_doors as is_of_doors
from tierledger.cli.output import shortened
from tierledger.events.errors import InvalidArgument
from tierledger.storage.locate import SCHEMES, is_store_url, public_url

if TYPE_CHECKING:
    from collections.abc import Mapping

STORE_VARIABLE = "TIERLEDGER_STORE"
"""The store's URL where `--store` is not given."""

CLUSTER_VARIABLE = "TIERLEDGER_CLUSTER"
"""The Kafka cluster's id where `--cluster` is not given."""


COLUMNS_VARIABLE = "TIERLEDGER_COLUMNS"
"""Where the store's column files are if `--columns` is not given."""

DOOR_VARIABLES = {
    "TIERLEDGER_CA": "door.ssl.ca.location",
    "TIERLEDGER_CERTIFICATE": "door.ssl.certificate.location",
    "TIERLEDGER_KEY": "door.ssl.key.location",
    "TIERLEDGER_TOKEN": "door.token.location",
}
"""Files with which a command comes in at doors, and the client's setting for each."""

TIER_KEYS_VARIABLE = "TIERLEDGER_TIER_KEYS"
"""The keys of encrypted segments in the three-object layout: ID=FILE,ID=FILE."""


def notify_socket() -> str | None:
    """Where a service manager listens, as sd_notify(3) says; None: nowhere."""
    return os.environ.get("NOTIFY_SOCKET") or None


def watchdog_us() -> int | None:
    """Within how many µs the service manager wants to hear from this process; None: never."""
    watch, own = os.environ.get("WATCHDOG_USEC", ""), str(os.getpid())
    is_ours = os.environ.get("WATCHDOG_PID", own) == own
    return int(watch) or None if watch.isdecimal() and is_ours else None


def ray_folder() -> str | None:
    """Where Ray has been told to keep its files; none for the temporary directory."""
    return os.environ.get("RAY_TMPDIR")


def environment() -> Mapping[str, str]:
    """All variables, also those of others, for a command that must not give them away."""
    return os.environ


def quiet_grpc() -> None:
    """Keep gRPC from writing between the lines of a command, which has words of its own."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")


def tier_options() -> Mapping[str, str]:
    """What the environment adds to a tier's URL."""
    keys = os.environ.get(TIER_KEYS_VARIABLE)
    return {"keys": keys} if keys else {}


def door_config() -> Mapping[str, str]:
    """The settings of the files that the environment names."""
    return {name: os.environ[key] for key, name in DOOR_VARIABLES.items() if key in os.environ}


def unknown_variables() -> list[str]:
    """The variables that look like one of these, and that nothing reads."""
    known = {STORE_VARIABLE, CLUSTER_VARIABLE, COLUMNS_VARIABLE, TIER_KEYS_VARIABLE}
    prefix = STORE_VARIABLE.partition("_")[0] + "_"
    own = [name for name in os.environ if name.startswith(prefix)]
    return sorted(set(own) - known - set(DOOR_VARIABLES))


def names_doors(option: str | None) -> bool:
    """Whether `option`, or else the environment, names a service by its doors, and no store."""
    return is_of_doors(given_url(option) or "")


def store_config(option: str | None) -> Mapping[str, object]:
    """The settings of the store: from `option`, else the environment, else the default.

    Raises:
        InvalidArgument: It names a service by its doors, or nothing.
    """
    if names_doors(option):
        raise refused_doors(option, "this command works on the store itself")
    return _config(option, _STORES)


def service_config(option: str | None) -> Mapping[str, object]:
    """The settings of the store, or of a service's doors, for a command that asks a service.

    Raises:
        InvalidArgument: It names neither.
    """
    return _config(option, f"{_STORES}, or of a running service, {SCHEME}HOST:PORT")


def refused_doors(option: str | None, why: str) -> InvalidArgument:
    """The refusal of a service's URL where only a store's will do."""
    return InvalidArgument(
        f"{_named_by(option)}: {given_url(option)} is the URL of a running service, and "
        f"{why}: expected that of its store, {_STORES}"
    )


_STORES = " or ".join(SCHEMES[one] for one in ("sqlite", "postgresql", "slatedb"))


def _config(option: str | None, expected: str) -> Mapping[str, object]:
    url = given_url(option)
    if not url:
        return {}
    if not (is_store_url(url) or names_doors(option)):
        raise InvalidArgument(
            f"{_named_by(option)}: expected the URL of a store, {expected}; "
            f"got {shortened(public_url(url))}"
        )
    if names_doors(option):
        try:
            doors_in(url)
        except InvalidArgument as error:
            raise InvalidArgument(f"{_named_by(option)}: {error}") from None
    return {"metadata.storage.url": url}


def given_url(option: str | None) -> str | None:
    """The URL that `option` names, or else the environment; none if neither does."""
    return option or os.environ.get(STORE_VARIABLE)


def _named_by(option: str | None) -> str:
    return "--store" if option else STORE_VARIABLE


def columns_config(store: str | None, columns: str | None) -> Mapping[str, object]:
    """The settings of the store, and of where its column files are.

    Raises:
        InvalidArgument: As `store_config`.
    """
    from tierledger.pipeline.column_files.locate import COLUMNS_SETTING

    config, given = dict(store_config(store)), columns_setting(columns)
    return config if given is None else {**config, COLUMNS_SETTING: given}


def columns_setting(option: str | None) -> str | None:
    """Where the column files are: `option`, else the environment's; none for the default."""
    return option or os.environ.get(COLUMNS_VARIABLE)


def cluster_setting(option: str | None) -> str | None:
    """The chosen cluster: `option`, else the environment's; none if neither is given."""
    return option or os.environ.get(CLUSTER_VARIABLE)
