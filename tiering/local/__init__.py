"""The local log of a broker's replica."""
