"""Makes expert-typescript's tasks: data types of many kinds x what is written about them."""
