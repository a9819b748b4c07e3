"""Makes expert-neo4j's questions: graphs x compositions, with answers proven by an embedded Cypher engine."""
