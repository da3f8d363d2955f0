"""Who is asked which broker leads a partition when the log alone cannot tell."""
