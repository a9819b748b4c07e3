"""The fast path: the same mathematics as transformers + peft, with less work and less memory.

Each module is one operation with a hand-written backward that keeps only what it needs. `decoder` strings
them together by reading the weights out of an untouched transformers + peft model, so that the model itself
still generates, saves and merges as it always does.
"""
