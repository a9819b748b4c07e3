"""TensorBoard files under the run's `tensorboard/`."""

from pathlib import Path

from expert_worker.tracking.scalars import Point


class TensorBoard:
    def __init__(self, folder: Path, resumed_from: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # Steps after the resumed one are recorded again: the older points are purged from the curves.
        purge = resumed_from + 1 if resumed_from else None
        self._writer = SummaryWriter(str(folder), purge_step=purge, flush_secs=10)

    def log(self, point: Point) -> None:
        for tag, value in point.values.items():
            self._writer.add_scalar(tag, value, point.step)

    def close(self) -> None:
        self._writer.close()
