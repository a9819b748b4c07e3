"""Fixtures of several areas."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from report.browser import Browser, program


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    executable = program()
    assert executable
    opened = Browser(executable, tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()
