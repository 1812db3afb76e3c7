"""Read events by position, by id, in scans and in lanes."""

from __future__ import annotations

import pytest

from onrecord.store.contract import EventRow, Store
from onrecord.testing.store_contract.builders import NS, Writer, all_rows, event_row
from onrecord.testing.store_contract.hooks import StoreHooks


class ReadCases(StoreHooks):
    def test_last_event(self, store: Store, writer: Writer) -> None:
        assert store.last_event(NS, "run-1") is None
        assert store.last_event(NS, "unknown") is None
        rows = writer.fill(3)
        assert store.last_event(NS, "run-1") == rows[-1]

    def test_event_by_seq(self, store: Store, writer: Writer) -> None:
        rows = writer.fill(3)
        assert [store.event(NS, "run-1", seq) for seq in (0, 1, 3, 4, -1, 1 << 70)] == [
            None,
            rows[0],
            rows[2],
            None,
            None,
            None,
        ]
        assert store.event(NS, "unknown", 1) is None

    def test_events_by_id(self, store: Store, writer: Writer) -> None:
        rows = writer.fill(3)
        found = store.events_by_id(NS, "run-1", ["event-3", "no", "event-1"])
        assert sorted(found) == sorted([rows[2], rows[0]])
        assert store.events_by_id(NS, "run-1", []) == []
        assert store.events_by_id(NS, "unknown", ["event-1"]) == []

    @pytest.mark.parametrize(
        ("start", "stop", "expected"),
        [
            (1, None, range(1, 8)),
            (3, None, range(3, 8)),
            (3, 5, range(3, 5)),
            (3, 3, range(0)),
            (5, 3, range(0)),
            (0, 100, range(1, 8)),
            (8, None, range(0)),
            (-(1 << 70), 1 << 70, range(1, 8)),
        ],
    )
    def test_scan_from_start_to_before_stop(
        self, store: Store, writer: Writer, start: int, stop: int | None, expected: range
    ) -> None:
        writer.fill(7)
        assert [row.seq for row in store.scan(NS, "run-1", start, stop)] == list(expected)

    def test_scan_of_nothing(self, store: Store, writer: Writer) -> None:
        assert all_rows(store) == []
        assert all_rows(store, "unknown") == []

    def test_scan_over_many_pages(self, store: Store, writer: Writer) -> None:
        for _ in range(3):
            writer.fill(1024)
        assert [row.seq for row in store.scan(NS, "run-1")] == list(range(1, 3073))
        assert [row.seq for row in store.scan(NS, "run-1", 500, 2600)] == list(range(500, 2600))

    def test_scan_of_large_contents(self, store: Store, writer: Writer) -> None:
        for seq in range(1, 8):
            writer.append(event_row(seq, content=bytes([seq]) * 3_000_000))
        for seq, row in enumerate(store.scan(NS, "run-1"), 1):
            assert row.seq == seq
            assert row.content == bytes([seq]) * 3_000_000

    def test_scan_without_contents(self, store: Store, writer: Writer) -> None:
        rows = writer.fill(3)
        assert list(store.scan(NS, "run-1", contents=False)) == [row._replace(content=None) for row in rows]

    def test_appends_while_scanning(self, store: Store, writer: Writer) -> None:
        writer.fill(600)
        seen = []
        for row in store.scan(NS, "run-1"):
            seen.append(row.seq)
            if len(seen) in (1, 550):
                writer.fill(3)
        assert seen[:600] == list(range(1, 601))
        assert seen == list(range(1, len(seen) + 1))

    def test_abandoned_scans_are_in_nobodys_way(self, store: Store, writer: Writer) -> None:
        writer.fill(600)
        scans = [store.scan(NS, "run-1") for _ in range(50)]
        assert [next(scan).seq for scan in scans] == [1] * 50
        writer.fill(1)
        assert store.last_event(NS, "run-1") is not None

    # Lanes

    def append_lanes(self, writer: Writer) -> list[EventRow]:
        lanes = ["main", "main>a", "main", 'main>ä"\\', "main@1", "main>a", "main"]
        count: dict[str, int] = {}
        rows = []
        for seq, lane in enumerate(lanes, 1):
            count[lane] = count.get(lane, 0) + 1
            rows.append(event_row(seq, lane=lane, lane_seq=count[lane]))
        rows.append(event_row(8, lane="main", lane_seq=None, prefix=None))
        rows.append(event_row(9, lane="main>b#9", lane_seq=None, prefix=None))
        writer.append(*rows)
        return rows

    def test_event_by_its_place_in_a_lane(self, store: Store, writer: Writer) -> None:
        rows = self.append_lanes(writer)
        for row in rows:
            if row.lane_seq is not None:
                found = store.lane_event(NS, "run-1", row.lane, row.lane_seq)
                assert found == row._replace(content=None)
        assert store.lane_event(NS, "run-1", "main", 4) is None
        assert store.lane_event(NS, "run-1", "main>c", 1) is None
        assert store.lane_event(NS, "unknown", "main", 1) is None

    @pytest.mark.parametrize("below", [None, 1, 2, 3, 5, 7, 8, 100])
    def test_last_behavioural_event_of_each_lane(self, store: Store, writer: Writer, below: int | None) -> None:
        rows = self.append_lanes(writer)
        expected = {
            row.lane: row._replace(content=None)
            for row in rows
            if row.lane_seq is not None and (below is None or row.seq < below)
        }
        found = store.lanes(NS, "run-1", below)
        assert {row.lane: row for row in found} == expected
        assert len(found) == len(expected)

    def test_lanes_of_nothing(self, store: Store, writer: Writer) -> None:
        assert store.lanes(NS, "run-1") == []
        assert store.lanes(NS, "unknown") == []

    def test_many_lanes(self, store: Store, writer: Writer) -> None:
        writer.append(*(event_row(n, lane=f"main>a#{n}", lane_seq=1) for n in range(1, 301)))
        assert len(store.lanes(NS, "run-1")) == 300
