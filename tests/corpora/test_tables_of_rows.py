"""Tables of rows from files, and recordings that are cut from them."""

import gzip

import numpy as np
import pytest

from hdp_nb.corpora.rows import cut_recordings, read_rows, read_times

TABLE = "id,when,x,kind\na,1,0.5,rest\nb,1,,run\na,2,1.5,\n"


def test_what_a_table_holds_in_all_formats(tmp_path):
    records = '{"id": "a", "when": 1, "x": 0.5, "kind": "rest"}\n'
    records += '{"id": "b", "when": 1, "x": null, "kind": "run"}\n'
    records += '{"id": "a", "when": 2, "x": 1.5, "kind": null}\n'
    files = {
        "a.csv": TABLE.encode(),
        "b.tsv": TABLE.replace(",", "\t").encode(),
        "c.csv": TABLE.replace(",", ";").replace(".", ",").encode("utf-8-sig"),
        "d.csv.gz": gzip.compress(TABLE.encode()),
        "e.csv": TABLE.encode("utf-16"),
        "f.jsonl": records.encode(),
        "g.json": f"[{','.join(records.splitlines())}]".encode(),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        found = read_rows(tmp_path / name).columns
        assert [*found] == ["id", "when", "x", "kind"], name
        np.testing.assert_array_equal(found["x"], [0.5, np.nan, 1.5])
        assert found["kind"].tolist() == ["rest", "run", None]
        assert found["when"].tolist() == [1, 1, 2]


def test_a_frame_in_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({"x": [1.5, None], "kind": ["a", None]})
    parquet.write_table(table, tmp_path / "a.parquet")
    found = read_rows(tmp_path / "a.parquet").columns
    np.testing.assert_array_equal(found["x"], [1.5, np.nan])
    assert found["kind"].tolist() == ["a", None]


@pytest.mark.parametrize(
    "content, said",
    [
        (b"", "header and rows"),
        (b"a,b\n", "header and rows"),
        (b"a,b\n1,2,3\n", "row 2 should have"),
        (b"a,a\n1,2\n", "'a' twice"),
        (b"a,b\n1,inf\n", "infinite one in 'b'"),
        (b'a,b\n1,"2\n', "quote"),
        (b"a,b\n1,\xff\n", "UTF-8"),
        (b'["a"]', "object"),
        (b'[{"a": [1, 2]}]', "one value as 'a'"),
    ],
)
def test_what_is_no_table_is_refused_in_a_line(tmp_path, content, said):
    (tmp_path / "a.csv").write_bytes(content)
    format = "json" if content[:1] == b"[" else None
    with pytest.raises(ValueError, match=said) as error:
        read_rows(tmp_path / "a.csv", format)
    assert "\n" not in str(error.value) and len(str(error.value)) <= 300 + len(str(tmp_path))


@pytest.mark.parametrize("seed", range(5))
def test_recordings_are_found_again_whatever_the_order_of_the_rows(seed):
    "Steps of a tenth of a second, some not there, a pause in the second recording."
    rng = np.random.default_rng(seed)
    ids, times, truth = [], [], []
    for name, begins in (("fox", [0.0]), ("owl", [0.0, 100.0])):
        for begin in begins:
            there = np.append(True, rng.random(39) > 0.1)
            there[-1] = True
            truth.append((name, there))
            times += [*(begin + 0.1 * np.flatnonzero(there))]
            ids += [name] * int(there.sum())
    order = rng.permutation(len(ids))
    order = order[np.argsort([ids[i] != "fox" for i in order], kind="stable")]
    found = cut_recordings(len(ids), [ids[i] for i in order], [times[i] for i in order])
    assert [found.names[j] for j in found.recording] == [name for name, _ in truth]
    for s, (_, there) in enumerate(truth):
        rows = found.rows[found.offsets[s] : found.offsets[s + 1]]
        np.testing.assert_array_equal(rows >= 0, there)
        assert (np.diff(order[rows[rows >= 0]]) > 0).all()
    assert sorted(found.rows[found.rows >= 0]) == [*range(len(ids))]
    assert "1 pause" in found.note and "missing" in found.note


def test_times_of_all_kinds():
    days = read_times(["2021-06-01", "2021-06-02"])
    assert np.diff(days).tolist() == [86400]
    zone = read_times(["2021-06-01T12:00:00+02:00", "2021-06-01 10:00:01"])
    assert np.diff(zone).tolist() == [1]
    assert np.diff(read_times(["13/06/2021", "14/06/2021"])).tolist() == [86400]


@pytest.mark.parametrize(
    "ids, times, said",
    [
        (["a", None], None, "id must be there"),
        (None, [1, None], "time must be there"),
        (None, [1, "noon"], "time must be numbers, or dates such as"),
        (["a", "b", "a"], [1, 1, 1], "row 3 of 'a' at the time of row 1"),
        (None, ["2021-02-30", "2021-03-01"], "day 30 of month 2"),
    ],
)
def test_times_and_ids_that_cannot_be(ids, times, said):
    with pytest.raises(ValueError, match=said):
        cut_recordings(len(ids or times), ids, times)


def test_rows_in_any_order_of_one_id_out_of_order_are_one_recording():
    found = cut_recordings(4, ["a", "b", "a", "b"])
    assert found.rows.tolist() == [0, 2, 1, 3] and found.offsets.tolist() == [0, 2, 4]
