"""Attacks on expert-cli, kept as named attempts: `python -m tests.adversary` repeats them as a table."""
