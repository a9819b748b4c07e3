"""`python -m expert_worker.push FOLDER OWNER/NAME` uploads a folder to the Hub; prints one JSON document."""

import argparse
import json
import sys
from pathlib import Path

from expert_worker.errors import ExpertError
from expert_worker.push.upload import deleted_by_upload, files_of, push
from expert_worker.terminal import report_failure


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m expert_worker.push", description=__doc__)
    parser.add_argument("folder", type=Path, help="an exported folder")
    parser.add_argument("repository", metavar="OWNER/NAME", help="the model repository")
    parser.add_argument("--private", action="store_true", help="make a private repository")
    parser.add_argument("--dry-run", action="store_true", help="only list what would be uploaded")
    asked = parser.parse_args(arguments)
    try:
        files = files_of(asked.folder)
        if asked.dry_run:
            done, deleted = None, deleted_by_upload(asked.folder, asked.repository)
        else:
            done = push(asked.folder, asked.repository, private=asked.private)
            deleted = done.deleted
    except ExpertError as error:
        return report_failure(error, to_cli=True)
    listed = [
        {"name": path.relative_to(asked.folder).as_posix(), "bytes": path.stat().st_size} for path in files
    ]
    document = {
        "repository": asked.repository,
        "private": asked.private,
        "files": listed,
        "deleted": deleted,
        "url": done and done.url,
    }
    sys.stdout.write(f"{json.dumps(document)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
