"""The program with all its commands, for whoever looks at them."""

from tierledger.cli.main import program

app = program()
