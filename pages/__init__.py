"""Parts of pages: templates, style sheets, scripts, and functions for the templates."""
