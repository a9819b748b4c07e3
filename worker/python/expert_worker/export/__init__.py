"""An expert as a folder for other programs: the plain adapter, or the base with the adapter merged in."""
