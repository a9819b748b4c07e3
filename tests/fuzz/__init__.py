"""Fuzz targets in Python: each checks what must hold for any bytes."""
