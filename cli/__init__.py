"""The `tierledger` command: traces, questions and answers, and what it prints."""
