"""The store of a shelf, on the driver's machine: what a task needs goes there, its run comes back."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from expert_worker.checkpoint.files import sha256
from expert_worker.errors import ExpertError, Failed
from expert_worker.ray_engine import shelf_inputs
from expert_worker.ray_engine.object_store import ObjectStore
from expert_worker.ray_engine.run_folder import BESIDE, FINISHED, INCOMING, files_of, install, put_beside
from expert_worker.ray_engine.stored_run import StoredRun


class ShelfStore:
    def __init__(self, url: str) -> None:
        self._store = ObjectStore(url)
        self._store.demand_create()
        self._mark = uuid.uuid4().hex
        self._store.write(f"marks/{self._mark}", self._mark.encode())

    def for_check(self, order: dict[str, Any]) -> dict[str, Any]:
        return {**order, "storage": {"url": self._store.url, "mark": self._mark}}

    def for_task(self, order: dict[str, Any], paths: dict[str, Any]) -> dict[str, Any]:
        """Sends what the expert is trained of, and the run that its folder holds where the store has none, or
        where that run was finished here and never was in the store."""
        run = Path(paths["run"])
        stored = StoredRun(self._store, paths["expert"])
        record = run / FINISHED
        is_new = stored.newest() is None or (record.is_file() and not stored.has_held(sha256(record)))
        seed = files_of(run) if is_new and run.is_dir() else {}
        inputs = shelf_inputs.send(self._store, paths, order, seed)
        order = self.for_check(order)
        return {**order, "storage": {**order["storage"], "inputs": inputs}}

    def bring(self, paths: dict[str, Any], token: int, warn: Callable[[str], None]) -> None:
        """The task's run, as it would be had it trained here."""
        stored = StoredRun(self._store, paths["expert"])
        run = Path(paths["run"])
        incoming = run / INCOMING
        shutil.rmtree(incoming, ignore_errors=True)
        found = stored.restore(incoming, warn)
        if found is None or found.token != token:
            raise Failed(
                f"The run of {paths['expert']} in {self._store.url} is another task's by now",
                hint="Another command trains this shelf with the same --storage: wait until it has ended.",
                code="lease-lost",
            )
        put_beside(incoming / BESIDE, Path(paths["expert_dir"]))
        install(incoming, run)

    def close(self) -> None:
        with suppress(ExpertError):
            self._store.remove(f"marks/{self._mark}")
