"""Where the configuration file is looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from acidctl.config import default_path, load_config


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"HOME": "/home/ann"}, "/home/ann/.config/acidctl/config.toml"),
        ({"HOME": "/home/ann", "XDG_CONFIG_HOME": "/etc/ann"}, "/etc/ann/acidctl/config.toml"),
        ({"XDG_CONFIG_HOME": "/etc/ann"}, "/etc/ann/acidctl/config.toml"),
        ({"HOME": "/home/ann", "XDG_CONFIG_HOME": "conf"}, "/home/ann/.config/acidctl/config.toml"),
        ({"HOME": "/home/ann", "XDG_CONFIG_HOME": ""}, "/home/ann/.config/acidctl/config.toml"),
        ({}, None),
        ({"HOME": ""}, None),
        ({"HOME": "ann", "XDG_CONFIG_HOME": "conf"}, None),
    ],
)
def test_the_default_file_lies_in_the_users_folder(environment: dict[str, str], expected: str | None) -> None:
    """XDG: a relative path is ignored; without a home there is no default file."""
    assert default_path(environment) == expected


def test_a_file_in_the_current_directory_is_nobodys_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who runs acidctl in a folder of others must not take their settings."""
    for folder in (tmp_path / ".config/acidctl", tmp_path / "conf/acidctl", tmp_path / "acidctl"):
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text('[options]\noutput = "json"\n')
    monkeypatch.chdir(tmp_path)
    assert load_config(None, {}).options == {}
    assert load_config(None, {"XDG_CONFIG_HOME": "conf"}).options == {}
    assert load_config("conf/acidctl/config.toml", {}).options == {"output": "json"}
