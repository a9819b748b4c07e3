"""Training: one explicit loop, and the fast path that it runs on."""

import os
import sys

# Before torch loads its OpenMP: spinning threads take CPU time from other processes, and on a shared
# machine make a step ten times slower. A short spin keeps most of the speed.
os.environ.setdefault("GOMP_SPINCOUNT", "20000")
os.environ.setdefault("KMP_BLOCKTIME", "1")
# oneDNN keeps up to 1,024 compiled kernels, a gigabyte if every batch has different shapes.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "128")
# Segments that grow leave no holes between batches of unlike sizes. Only Linux has them; a user's own
# settings stay as they are.
if sys.platform == "linux" and "PYTORCH_CUDA_ALLOC_CONF" not in os.environ:
    os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")
