"""Keys, redaction and seals of one user."""
