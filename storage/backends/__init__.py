"""The key-value stores; each is a `MetadataStorageBackend`."""
