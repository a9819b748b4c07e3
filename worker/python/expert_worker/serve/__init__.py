"""A warm parent: imports and the base's weights are paid once, and each stage runs in a child forked from it.

`expert-cli train --all` starts one where forking is sound (Linux) and asks it for a child an expert. The
child is the CLI's own: it has the CLI's pipes, a process group of its own and the CLI as its parent. Neither
the end of this process nor that of another child touches it.
"""

from expert_worker.serve.loop import serve

__all__ = ["serve"]
