"""A warm parent: imports and the base's weights are loaded once, and each stage runs in a child forked from
it.
`expert-cli train --all` starts one where forking is safe (Linux) and requests one child per expert. The
child belongs to the CLI: it has the CLI's pipes, its own process group and the CLI as its parent. Neither the
end of this process nor that of another child affects it.
"""

from expert_worker.warm.loop import serve

__all__ = ["serve"]
