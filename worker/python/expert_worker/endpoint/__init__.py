"""`expert-cli serve`: the experts of one base behind OpenAI's HTTP calls.

`server` listens and checks requests; an engine (`llama`, `peft_engine`) writes the answers. llama.cpp runs
in a process by itself (`llama_process`).
"""
