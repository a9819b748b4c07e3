"""The fast path: the same mathematics as transformers + peft, with less work and less memory.

Each module is one operation with a hand-written backward that keeps only what it needs. `decoder` combines
them by reading the weights of an unmodified transformers + peft model, so that the model still generates,
saves and merges as usual.
"""
