"""Measuring: what limits the speed of a run, what each optimisation is worth, who holds GPU memory.

Only `stage` imports torch, so that a watcher uses little memory beside the run that it watches.
"""
