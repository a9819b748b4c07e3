"""The check of the tokenizer imports transformers' renderer alone, or whole where its layout is another."""

import subprocess
import sys
from pathlib import Path

import pytest

CHILD = """
import sys
from expert_worker.pretokenize.exactness import import_renderer_alone
import_renderer_alone()
renderer, package = (sys.modules[name] for name in ("transformers.utils.chat_template_utils", "transformers"))
print(renderer.LOADED, hasattr(package, "whole"))
"""


@pytest.mark.parametrize(
    ("renderer", "found"),
    [("LOADED = 1", "1 False"), ("from .. import whole\nLOADED = whole", "2 True")],
    ids=["alone", "whole"],
)
def test_what_the_renderer_needs_is_imported_with_it(tmp_path: Path, renderer: str, found: str) -> None:
    package = tmp_path / "transformers"
    (package / "utils").mkdir(parents=True)
    (package / "__init__.py").write_text("whole = 2\n")
    (package / "utils/__init__.py").touch()
    (package / "utils/chat_template_utils.py").write_text(renderer)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{CHILD}"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == found
