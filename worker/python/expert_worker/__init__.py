"""The Python side of expert-cli: it carries out plans and reports events."""

__version__ = "0.1.0"
