"""Where bytes are kept; each is a `MetadataStorageBackend`."""
