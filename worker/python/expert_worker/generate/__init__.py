"""Trying an expert by hand: text as it is written, base beside adapter."""
