from collections.abc import Iterator
from pathlib import Path

import pytest
from s3_server import BUCKET, S3Server, serving


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    with serving(monkeypatch) as server:
        yield server


@pytest.fixture(params=["file", pytest.param("s3", marks=pytest.mark.full)])
def shelf_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The store itself is tested with both; a shelf of tasks on S3 takes three times as long."""
    return _url(request, tmp_path)


@pytest.fixture(params=["file", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return _url(request, tmp_path)


def _url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return f"file://{tmp_path}/store"
    request.getfixturevalue("s3")
    return f"s3://{BUCKET}/{tmp_path.name}"
