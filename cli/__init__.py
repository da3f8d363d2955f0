"""The `tierledger` command."""
