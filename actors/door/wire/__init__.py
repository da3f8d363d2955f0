"""Messages of the door to objects of the domain, and back.

Rule: what comes in leaves here checked, or as `InvalidArgument` that names the field. Below
nobody asks for types or bounds.
"""
