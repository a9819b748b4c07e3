"""Nothing to do: the CLI keeps its workers in a job object that dies with it."""


def die_with_parent(parent: int, *, reads_stdin: bool) -> None:
    del parent, reads_stdin
