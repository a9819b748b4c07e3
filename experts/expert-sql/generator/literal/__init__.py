"""Questions that name columns, keys and types literally, each kind in one wording: as a program or a careful person writes them."""
