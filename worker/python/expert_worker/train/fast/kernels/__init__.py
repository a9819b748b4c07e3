"""The operations of the fast path, each with its kernels: `registry.py` says how one is chosen and added."""
