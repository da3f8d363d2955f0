"""Settings that a process of a former release sends: they lack what was added since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, fields
from itertools import islice
from typing import Any


def with_defaults(instance: Any, state: Sequence[object]) -> None:  # noqa: ANN401 - Any dataclass.
    """Set the fields of a frozen dataclass as its `__setstate__`; those that lack by default.

    Rule: a field that is added comes last, and has a default. A former release ignores it.
    """
    known = fields(instance)
    for field, value in zip(known, state, strict=False):
        object.__setattr__(instance, field.name, value)
    for field in islice(known, len(state), None):
        made = field.default if field.default_factory is MISSING else field.default_factory()
        object.__setattr__(instance, field.name, made)
