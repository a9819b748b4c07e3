"""Measuring: what the device waits for, what each optimisation is worth, who holds its memory.

Nothing here imports torch unless a probe trains: a watcher must weigh nothing beside what it watches.
"""
