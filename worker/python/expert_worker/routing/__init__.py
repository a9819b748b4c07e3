"""Chooses the expert of a shelf that a prompt is for, or none of them."""

from expert_worker.routing.features import prompt_of
from expert_worker.routing.router import Examples, Route, Router

__all__ = ["Examples", "Route", "Router", "prompt_of"]
