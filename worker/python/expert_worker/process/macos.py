"""No death signal here: the CLI holds this process's standard input open, and its end is the CLI's end."""

import os
import threading


def die_with_parent(parent: int, *, reads_stdin: bool) -> None:
    """A stage that reads its standard input sees the end of it by itself."""
    del parent
    if reads_stdin:
        return

    def watch() -> None:
        while os.read(0, 4096):
            pass
        os._exit(1)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()
