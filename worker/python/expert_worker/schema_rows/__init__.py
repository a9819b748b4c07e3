"""Training, validation and test rows from a user's own schema alone."""
