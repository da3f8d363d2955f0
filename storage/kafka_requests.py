"""One form for the requests of Kafka's protocol that aiokafka lacks.

They are of versions with tagged fields: each struct ends with tags, which are left empty.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from aiokafka.protocol.api import (  # type: ignore[import-untyped] # It has no types.
    Request,
    RequestStruct,
    Response,
    ResponseHeader_v1,
)
from aiokafka.protocol.types import (  # type: ignore[import-untyped] # It has no types.
    CompactArray,
    CompactString,
    Schema,
    TaggedFields,
)

Field: TypeAlias = tuple[str, Any]
"""A field's name and aiokafka's type."""

STRING = CompactString("utf-8")
TAGS: Field = ("tags", TaggedFields)


def rows(*fields: Field) -> Any:  # noqa: ANN401 - aiokafka's.
    """The type of an array of structs; a struct's value is a tuple that ends with `{}`."""
    return CompactArray(*fields, TAGS)


def request_of(
    key: int,
    version: int,
    asks: list[Field],
    answers: list[Field],
    header: Any = ResponseHeader_v1,  # noqa: ANN401 - aiokafka's.
) -> Any:  # noqa: ANN401 - aiokafka's.
    """A request's class; an instance is made of the values of `asks`, in order.

    A connection's `send` returns an instance of the class `Answer`.
    """

    class Answer(Response):  # type: ignore[misc]
        API_KEY = key
        API_VERSION = version
        SCHEMA = Schema(*answers, TAGS)

    class Asked(RequestStruct):  # type: ignore[misc]
        API_KEY = key
        API_VERSION = version
        FLEXIBLE_VERSION = True
        RESPONSE_TYPE = Answer
        SCHEMA = Schema(*asks, TAGS)

        def parse_response_header(self, read_buffer: Any) -> Any:  # noqa: ANN401 - aiokafka's.
            return header.decode(read_buffer)

    class Made(Request[Asked]):  # type: ignore[misc]
        API_KEY = key

        def __init__(self, *values: object) -> None:
            self._values = values

        def build(self, request_struct_class: Any) -> Any:  # noqa: ANN401 - aiokafka's.
            return request_struct_class(*self._values, {})

    Made.Answer = Answer
    return Made
