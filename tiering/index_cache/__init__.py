"""The indexes of remote segments, kept on a local disk."""
