"""Makes expert-sql's questions: domains x compositions, with answers proven on generated data."""
