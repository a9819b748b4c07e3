"""Chooses the expert of a shelf that a prompt is for, or none of them."""
