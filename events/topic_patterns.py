"""Patterns of topics' names, as of a shell: * ? [abc]. Holds, prices and labels have them."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

OPEN = "*?["
"""The characters that make a text a pattern."""


def is_open(pattern: str) -> bool:
    """Whether several topics can match; else it is the name of one."""
    return any(one in pattern for one in OPEN)


def matches(topic: str, pattern: str) -> bool:
    """Whether the topic's name matches; large and small letters differ."""
    return fnmatchcase(topic, pattern)


def narrowest(topic: str, patterns: Iterable[str]) -> list[str]:
    """Those that match `topic` and leave the least open; several, if they are equally narrow.

    A name is narrower than any pattern, and a pattern is narrower the longer it is without
    its asterisks.
    """
    found = [one for one in patterns if matches(topic, one)]
    most = max(map(_narrowness, found), default=None)
    return [one for one in found if _narrowness(one) == most]


def _narrowness(pattern: str) -> tuple[bool, int]:
    return not is_open(pattern), len(pattern) - pattern.count("*")
