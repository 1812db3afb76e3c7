"""The hint for a missing extra installs this package, from where this installation came."""

from __future__ import annotations

import json
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from onrecord import extras
from onrecord.extras import install_command

PACKAGES = "'uvicorn>=0.30' 'jinja2>=3'"
GONE = " is gone, which onrecord was installed from"


class Installed:
    def __init__(self, source: Any) -> None:
        self.text = json.dumps(source) if source is not None else None
        self.requires = ["apsw>=3", "uvicorn>=0.30; extra == 'web'", 'jinja2>=3; extra == "web"', "x; extra == 'y'"]

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return self.text


def installed_from(monkeypatch: pytest.MonkeyPatch, source: Any) -> str:
    monkeypatch.setattr("importlib.metadata.distribution", lambda _: Installed(source))
    monkeypatch.setattr(extras, "_pip", lambda: ["pip"])
    return install_command("web")


def test_a_checkout_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "my checkout"
    folder.mkdir()
    plain = {"url": folder.as_uri(), "dir_info": {}}
    assert installed_from(monkeypatch, plain) == f"pip install '{folder}[web]'"
    editable = {**plain, "dir_info": {"editable": True}}
    assert installed_from(monkeypatch, editable) == f"pip install -e '{folder}[web]'"


@pytest.mark.parametrize(
    ("source", "requirement"),
    [
        (None, PACKAGES),
        ([], PACKAGES),
        ({"url": "file:///gone/for/good", "dir_info": {}}, f"{PACKAGES}  # /gone/for/good{GONE}"),
        ({"url": "file:///gone/onrecord.whl", "archive_info": {}}, f"{PACKAGES}  # /gone/onrecord.whl{GONE}"),
        ({"url": "https://host/o.whl", "archive_info": {}}, "'onrecord[web] @ https://host/o.whl'"),
        (
            {"url": "https://host/o.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "'onrecord[web] @ git+https://host/o.git@abc'",
        ),
    ],
)
def test_other_sources(monkeypatch: pytest.MonkeyPatch, source: Any, requirement: str) -> None:
    assert installed_from(monkeypatch, source) == f"pip install {requirement}"


def test_a_package_that_was_never_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> None:
        raise PackageNotFoundError

    monkeypatch.setattr("importlib.metadata.distribution", missing)
    assert install_command("web").endswith("install 'onrecord[web]'")


def test_pip_is_the_one_of_this_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: str(Path(sys.executable).parent / "pip"))
    assert install_command("web").startswith("pip install ")
    monkeypatch.setattr("shutil.which", lambda _: "/usr/bin/pip")
    assert install_command("web").startswith(f"{sys.executable} -m pip install ")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert install_command("web").split()[1:5] == ["-m", "pip", "--python", sys.executable]
