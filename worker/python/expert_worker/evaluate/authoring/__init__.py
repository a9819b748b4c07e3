"""What the experts' dataset generators share: reproducible chance, splits without leakage, files."""
