"""Training: one explicit loop, and the fast path that it runs on."""
