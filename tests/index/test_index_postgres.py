"""The index of a store in Postgres: in the user's cache folder, and told by the operations journal what was removed."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from kit.index import CANARY, found, listed, record, said
from onrecord.cli.main import cli
from onrecord.index.index import Index
from onrecord.journal.erasure import erase_value
from onrecord.store.factory import open_store


def test_a_store_in_postgres_is_followed(database_url: str, tmp_path: Path) -> None:
    store = open_store(database_url)
    index = Index(store)
    record(store, "one", said("the canaryword"))
    assert found(index, "canaryword") == [("one", 2)]
    record(store, "two", said("fox"))
    assert found(index, "fox") == [("two", 2)]
    assert listed(index) == ["two", "one"]
    assert index.path is not None
    assert index.path.startswith(str(tmp_path / "cache"))
    erase_value(store, "canaryword", reason="asked to")
    assert found(index, "canaryword") == []
    assert found(index, "fox") == [("two", 2)]
    assert not [file for file in (tmp_path / "cache").rglob("*.index*") if CANARY in file.read_bytes()]
    index.close()
    store.close()


def test_the_command_empties_the_index_of_this_machine(database_url: str, tmp_path: Path) -> None:
    store = open_store(database_url)
    index = Index(store)
    record(store, "one", said("the canaryword"))
    assert found(index, "canaryword") == [("one", 2)]
    index.close()
    store.close()
    files = list((tmp_path / "cache").rglob("*.index*"))
    assert any(CANARY in file.read_bytes() for file in files)
    erasing = ["erase", "--store", database_url, "--value", "canaryword", "--yes"]
    result = CliRunner().invoke(cli, erasing)
    assert result.exit_code == 0, result.output
    assert not [file for file in (tmp_path / "cache").rglob("*.index*") if CANARY in file.read_bytes()]
