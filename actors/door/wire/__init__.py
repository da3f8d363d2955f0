"""Converts messages of the door to objects of the domain, and back.

Rule: an incoming message is either checked completely here, or refused with an
`InvalidArgument` that names the field. Code below does not check types or bounds.
"""
