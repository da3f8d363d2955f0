"""Brokers, their plugins and clients, real and made up."""
