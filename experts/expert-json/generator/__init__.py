"""Makes expert-json's tasks: things of many kinds x what can be done to their JSON."""
