"""What all tests of jobs share."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

_SERVICES = ("hdfs", "s3", "spark", "hive", "hive3")


@pytest.fixture(autouse=True)
def _nobody_waits_for_what_is_gone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A storage that fails by design fails however long one waits between two tries; real services come back."""
    if not any(request.node.get_closest_marker(name) for name in _SERVICES):
        monkeypatch.setattr("acidctl.storage.retry.time", SimpleNamespace(sleep=lambda seconds: None))
