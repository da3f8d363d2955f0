"""The domain: identifiers, metadata, lifecycle, events, rules, codecs and errors; all pure."""
