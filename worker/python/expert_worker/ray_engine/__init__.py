"""A shelf on a Ray cluster: the driver of `train --all --engine ray`, and its tasks on the nodes."""
