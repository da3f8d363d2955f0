"""What is said where a package is missing that only some of tierledger needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tierledger.events.errors import InvalidArgument

EXTRAS = {
    "ray": "service",
    "aiokafka": "tier",
    "cramjam": "tier",
    "google_crc32c": "tier",
    "obstore": "tier",
    "numpy": "spark",
    "pandas": "spark",
    "py4j": "spark",
    "pyarrow": "spark",
    "pyspark": "spark",
}
"""Which extra of pyproject.toml brings a package, by the name it is imported under."""


def missing(module: str) -> InvalidArgument:
    """The error where `module`, of a package of `EXTRAS`, is not installed."""
    extra = EXTRAS[module.partition(".")[0]]
    return InvalidArgument(
        f"this needs {module}, which is not installed; "
        f"install it with: pip install 'tierledger[{extra}]'"
    )


@contextmanager
def naming_extras() -> Iterator[None]:
    """Let an import in the block that fails for want of an extra name it.

    Raises:
        InvalidArgument: A package of `EXTRAS` is missing; the message says how to install it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        # A part of it is missing from another version, or from a folder that has its name.
        if error.name is None or error.name.partition(".")[0] not in EXTRAS:
            raise
        raise missing(error.name) from error
