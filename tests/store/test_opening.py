"""Which store a URL, a setting or nothing at all leads to."""

import contextlib
import os
import stat
import sys
from pathlib import Path

import pytest

from onrecord.errors import InvalidInput, StoreUnavailable
from onrecord.journal.journal import Journal
from onrecord.store.contract import Store
from onrecord.store.factory import open_store
from onrecord.store.location import default_url
from onrecord.store.memory import MemoryStore
from onrecord.store.sqlite.store import SqliteStore


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ONRECORD_STORE", raising=False)
    monkeypatch.delenv("ONRECORD_DURABILITY", raising=False)
    return tmp_path


def path_of(store: Store) -> Path:
    assert isinstance(store, SqliteStore)
    store.close()
    return Path(store.path)


def test_memory_is_new_each_time() -> None:
    assert open_store("memory://") is not open_store("memory://")


def test_named_memory_is_shared() -> None:
    one = open_store("memory://one")
    assert isinstance(one, MemoryStore)
    assert open_store("memory://one") is one
    assert open_store("memory://two") is not one
    assert one.url == "memory://one"


def test_sqlite_url_with_three_slashes_is_relative(here: Path) -> None:
    assert path_of(open_store("sqlite:///some/store.db")) == here / "some" / "store.db"


def test_sqlite_url_with_four_slashes_is_absolute(here: Path) -> None:
    url = f"sqlite:///{here}/store.db"
    assert url.startswith("sqlite:////")
    store = open_store(url)
    assert store.url == url
    assert path_of(store) == here / "store.db"


@pytest.mark.parametrize("name", ["plain.db", "a?mode=ro", "b#c", "d%20e", "file:f", ":memory:"])
@pytest.mark.parametrize("before", ["", "sqlite:///"])
def test_names_are_literal(here: Path, before: str, name: str) -> None:
    assert path_of(open_store(before + name)) == here / name
    assert (here / name).is_file()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite://host/path", "mysql://x", "://", "http://x/y"])
def test_urls_that_name_nothing(url: str, here: Path) -> None:
    with pytest.raises(InvalidInput):
        open_store(url)
    assert list(here.iterdir()) == []


def test_default_is_a_private_ignored_folder(here: Path) -> None:
    assert path_of(open_store()) == here / ".onrecord" / "onrecord.db"
    assert (here / ".onrecord" / ".gitignore").read_text() == "*\n"
    assert stat.S_IMODE((here / ".onrecord").stat().st_mode) == 0o700
    path_of(open_store())


def test_default_is_in_the_project(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    (here / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(here / "deep" / "er")
    assert path_of(open_store()) == here / ".onrecord" / "onrecord.db"


def test_reading_makes_no_folder(here: Path) -> None:
    with pytest.raises(StoreUnavailable, match="no store"):
        open_store(read_only=True)
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("setting", "expected"),
    [("data/my.db", "data/my.db"), ("sqlite:///data/my.db", "data/my.db"), ("/tmp/x.db", "/tmp/x.db")],
)
def test_project_setting(here: Path, monkeypatch: pytest.MonkeyPatch, setting: str, expected: str) -> None:
    (here / "pyproject.toml").write_text(f"[tool.onrecord]\nstore = {setting!r}\n")
    (here / "deep").mkdir()
    monkeypatch.chdir(here / "deep")
    assert default_url().removeprefix("sqlite:///") == str(here / expected)
    assert not (here / ".onrecord").exists()


def test_project_setting_of_another_kind(here: Path) -> None:
    (here / "pyproject.toml").write_text("[tool.onrecord]\nstore = 'memory://set'\n")
    assert open_store() is open_store("memory://set")


@pytest.mark.parametrize("text", ["[tool.onrecord]\nstore = 3\n", "[tool.onrecord]\nstore = ''\n", "[tool"])
def test_broken_project_setting(here: Path, text: str) -> None:
    (here / "pyproject.toml").write_text(text)
    with pytest.raises(InvalidInput, match=r"pyproject\.toml"):
        open_store()


def test_environment_goes_before_the_project(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "pyproject.toml").write_text("[tool.onrecord]\nstore = 'other.db'\n")
    monkeypatch.setenv("ONRECORD_STORE", "mine.db")
    assert path_of(open_store()) == here / "mine.db"
    assert path_of(open_store("named.db")) == here / "named.db"


def test_durability(monkeypatch: pytest.MonkeyPatch) -> None:
    assert open_store("memory://").durability == "full"
    monkeypatch.setenv("ONRECORD_DURABILITY", "relaxed")
    assert open_store("memory://").durability == "relaxed"
    assert open_store("memory://", durability="full").durability == "full"
    store = open_store("s.db")
    assert store.durability == "relaxed"
    store.close()


@pytest.mark.parametrize("where", ["argument", "environment"])
def test_unknown_durability(monkeypatch: pytest.MonkeyPatch, where: str, here: Path) -> None:
    if where == "environment":
        monkeypatch.setenv("ONRECORD_DURABILITY", "some")
    with pytest.raises(InvalidInput, match="some"):
        open_store("s.db", durability="some" if where == "argument" else None)
    assert os.listdir(here) == []


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_postgres_without_its_driver(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("onrecord.store.postgres", "psycopg"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreUnavailable, match="psycopg") as caught:
        open_store(f"{scheme}://localhost/x")
    assert "[postgres]" in caught.value.hint


def test_a_store_in_a_folder_without_write_permission_is_read_and_nothing_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    with contextlib.closing(SqliteStore(path)) as writer:
        Journal.create(writer, "a", facts={}).release()
    with monkeypatch.context() as patched:
        patched.setattr(os, "access", lambda *_: False)
        reader = SqliteStore(path, read_only=True)
    with contextlib.closing(reader):
        assert [row.header.run for row in reader.list_runs("default")] == ["a"]
        assert sorted(one.name for one in tmp_path.iterdir()) == ["store.db"], "nothing is created"
        with contextlib.closing(SqliteStore(path)) as writer:
            Journal.create(writer, "b", facts={}).release()
            assert (tmp_path / "store.db-wal").stat().st_size > 0
            assert {row.header.run for row in reader.list_runs("default")} == {"a", "b"}, "it is in the log"
        assert {row.header.run for row in reader.list_runs("default")} == {"a", "b"}, "the log is gone"
