"""What tests are run with: slow models, worlds in memory, servers, and made-up data."""
