"""The console: live pages about a store and its service, over HTTP."""
