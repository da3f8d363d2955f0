"""Questions that no run asked, put to the service's rules and tables and to slow ones."""
