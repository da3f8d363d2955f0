"""What pages are made of: templates, style sheets, scripts, and what the templates may call."""
