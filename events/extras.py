"""Errors for optional packages that are not installed, naming the extra that brings them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tierledger.events.errors import InvalidArgument

EXTRAS = {
    "ray": "service",
    "grpc_reflection": "service",
    "aiokafka": "tier",
    "cramjam": "tier",
    "cryptography": "tier",
    "google_crc32c": "tier",
    "obstore": "tier",
    "slatedb": "bucket",
    "starlette": "console",
    "uvicorn": "console",
    "duckdb": "sql",
    "numpy": "spark",
    "pandas": "spark",
    "py4j": "spark",
    "pyarrow": "spark",
    "pyspark": "spark",
    "opentelemetry": "traces",
}
"""The extra of pyproject.toml that brings a package, by the package's import name."""


def missing(module: str) -> InvalidArgument:
    """The error for `module` of a package in `EXTRAS` that is not installed."""
    extra = EXTRAS[module.partition(".")[0]]
    return InvalidArgument(
        f"this needs {module}, which is not installed; "
        f"install tierledger with the extra {extra}: docs/packages.md"
    )


def is_of_extra(error: ModuleNotFoundError) -> bool:
    """Whether what is missing is a package of `EXTRAS`.

    Its name may be another package's, or a module missing from another version.
    """
    return error.name is not None and error.name.partition(".")[0] in EXTRAS


@contextmanager
def naming_extras() -> Iterator[None]:
    """Convert a failed import of an extra's package in the block into an error that names it.

    Raises:
        InvalidArgument: A package of `EXTRAS` is missing; the message says how to install it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if not is_of_extra(error):
            raise
        raise missing(error.name or "") from error
