"""Questions about tables, their wordings, and the queries that answer them."""
