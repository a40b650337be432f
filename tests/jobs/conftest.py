"""What tests of jobs share."""

from __future__ import annotations

from types import SimpleNamespace

import pytest


@pytest.fixture
def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause between two tries: a storage that fails by design does so however long one waits."""
    monkeypatch.setattr("acidctl.storage.retry.time", SimpleNamespace(sleep=lambda seconds: None))
