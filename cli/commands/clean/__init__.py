"""`clean`: what is dead weight in a tier goes, with evidence."""
