"""What is said where the Hugging Face Hub was not reached."""

import pytest
from huggingface_hub.errors import OfflineModeIsEnabled

from expert_worker.hub_errors import not_fetched

VARIABLES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")


@pytest.mark.parametrize("name", VARIABLES)
def test_the_variable_that_is_set_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in VARIABLES:
        monkeypatch.setenv(other, "0")
    monkeypatch.setenv(name, "yes")
    failure = not_fetched(OfflineModeIsEnabled("x"), "not here", "a/b", hint="?", code="base-missing")
    assert str(failure) == f"not here: {name} is set"
    assert failure.hint == f"Unset {name} to download it."
