"""Items: real-world CSV and JSON files, and errors in them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

from mainspring.core.work.map_reduce import Input, ItemFile
from mainspring.mapreduce.items import MAX_FIELD_LENGTH, MAX_LINE_LENGTH, Item, open_items
from mainspring.mapreduce.paths import make_directory
from mainspring.protocol.errors import InvalidFile, Refused


def read(given: Input, directory: Path) -> list[Item]:
    """Return all items of an input, iterated twice, as a map does."""
    with open_items(given, directory) as items:
        once, twice = list(items), list(items)
        assert once == twice
        assert len(once) == items.count
    return once


def csv_of(directory: Path, content: bytes, limit: int | None = None, **said: str) -> list[Item]:
    """Return the items of a CSV file with this content."""
    (directory / "a.csv").write_bytes(content)
    return read(Input(source=ItemFile(type="csv", path="a.csv", **said), limit=limit), directory)


def json_of(directory: Path, content: bytes) -> list[Item]:
    """Return the items of a JSON file with this content."""
    (directory / "a.json").write_bytes(content)
    return read(Input(source=ItemFile(type="json", path="a.json")), directory)


@pytest.mark.parametrize(
    ("content", "said", "title"),
    [
        (b"title,n\ncaf\xc3\xa9,1\n", {}, "café"),
        (b"\xef\xbb\xbftitle,n\r\ncaf\xc3\xa9,1\r\n", {}, "café"),
        (b"title;n\ncaf\xe9;1", {"delimiter": ";", "encoding": "latin-1"}, "café"),
        ("title,n\ncafé,1\n".encode("utf-16"), {}, "café"),
        ("title,n\ncafé,1\n".encode("utf-16-be"), {"encoding": "utf-16-be"}, "café"),
        (b' title , n\n\n"a,\n""b""",1\n\n', {}, 'a,\n"b"'),
        (b"title\tn\nx\t1\n", {"delimiter": "\t"}, "x"),
        (b"title,n\n,1\n", {}, ""),
    ],
)
def test_a_csv_is_read_as_it_was_saved(tmp_path: Path, content: bytes, said: dict[str, str], title: str) -> None:
    """With or without a byte order mark, quotes, empty lines."""
    assert csv_of(tmp_path, content, None, **said) == [{"title": title, "n": "1"}]


@pytest.mark.parametrize(
    ("content", "said", "message"),
    [
        (b"", {}, "a.csv is empty"),
        (b"\n\n", {}, "is empty"),
        (b"a,b\n1,2\n\ncaf\xe9,2\n", {}, "a.csv:4: byte 13 (0xe9) is not utf-8: "),
        (b"a,b\n1,\x81\n", {"encoding": "cp1252"}, "a.csv:2: byte 7 (0x81) is not cp1252"),
        (b"a,b\nx\x80,1\n", {"encoding": "ascii"}, "a.csv:2: byte 6 (0x80) is not ascii"),
        ("a,b\n1,2\n".encode("utf-16-le"), {}, "a.csv:1: line 1 "),
        (b"a,b\n1,2\n1,2,3\n", {}, "a.csv:3: line 3 has 3 fields"),
        (b"a,b\n1\n", {}, "a.csv:2: line 2 has 1 field"),
        (b"a,,b\n1,2,3\n", {}, "a.csv:1: line 1 has no name for column 2"),
        (b"a,b, a\n1,2,3\n", {}, "a.csv:1: line 1 has a duplicate column a"),
        (b'a,b\n"1,2\n', {}, "unexpected end of data"),
        (b'a,b\n"1"x,2\n', {}, "a.csv:2: line 2 "),
        pytest.param(b"a\n" + b"x" * (MAX_FIELD_LENGTH + 1), {}, "field larger than field limit", id="a large field"),
        pytest.param(b"a\n" + b"x" * (MAX_LINE_LENGTH + 1), {}, "a.csv:2: the line is longer than", id="a long line"),
    ],
)
def test_errors_in_a_csv_are_reported_with_the_line(
    tmp_path: Path, content: bytes, said: dict[str, str], message: str
) -> None:
    """Before any prompt is sent."""
    with pytest.raises(InvalidFile) as refused:
        csv_of(tmp_path, content, None, **said)
    assert message in str(refused.value)


def test_an_encoding_error_in_a_large_file_is_located(tmp_path: Path) -> None:
    """The offset counts across read chunks."""
    rows = b"a,b\n" + b"1,\xc3\xa9\n" * 60_000
    with pytest.raises(InvalidFile, match=rf"a.csv:60002: byte {len(rows) + 2} \(0xff\)"):
        csv_of(tmp_path, rows + b"1\xff,2\n")


def test_a_hundred_thousand_rows_are_streamed(tmp_path: Path) -> None:
    """And only as far as needed."""
    rows = b"n,text\n" + b"".join(b"%d,some text\n" % number for number in range(100_000))
    items = csv_of(tmp_path, rows)
    assert len(items) == 100_000
    assert sum(int(str(item["n"])) for item in items) == sum(range(100_000))
    assert [item["n"] for item in csv_of(tmp_path, rows + b"ragged\n", limit=3)] == ["0", "1", "2"]


@pytest.mark.parametrize(
    "content",
    [
        b'[{"a": 1}, {"b": [2, {"c": null}]}]',
        b'\xef\xbb\xbf  [{"a": 1},\n{"b": [2, {"c": null}]}]',
        b'{"a": 1}\n\n{"b": [2, {"c": null}]}',
        b'\xef\xbb\xbf{"a": 1}\r\n{"b": [2, {"c": null}]}\r\n',
    ],
)
def test_json_is_a_list_of_objects_or_one_per_line(tmp_path: Path, content: bytes) -> None:
    """Values keep their types."""
    assert json_of(tmp_path, content) == [{"a": 1}, {"b": [2, {"c": None}]}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "a.json is empty"),
        (b'[{"a": 1}, 2]', "Expected `object`, got `int` - at `$[1]`"),
        (b'[{"a": 1}', "Input data was truncated"),
        (b'{"a": 1}\n[1]\n', "a.json:2: "),
        (b'{\n"a": 1}', "a.json:1: "),
        (b'{"a": "\xff"}', "a.json:1: "),
        ('[{"a": 1}]'.encode("utf-16"), "a.json is UTF-16"),
        (b"[" * 100_000, "a.json "),
        (b'{"a":' * 100_000, "a.json:1: "),
    ],
)
def test_errors_in_json_are_reported(tmp_path: Path, content: bytes, message: str) -> None:
    """Hostile input included."""
    with pytest.raises(InvalidFile) as refused:
        json_of(tmp_path, content)
    assert message in str(refused.value)


def test_items_can_be_inline(tmp_path: Path) -> None:
    """As JSON values."""
    items = [{"queue": "high", "n": 1}, {"queue": "low"}]
    given = msgspec.json.decode(json.dumps({"items": items, "limit": 1}), type=Input)
    assert read(given, tmp_path) == items[:1]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("outside.csv", "is outside of"),
        ("linked/secret.csv", "is outside of"),
        ("../secret/secret.csv", "is outside of"),
        ("round.csv", "round.csv"),
        ("missing.csv", "No such file"),
        ("pipe.csv", "is not a file"),
        ("below", "is not a file"),
        (".", "is outside of"),
    ],
)
def test_a_path_outside_the_directory_is_refused(tmp_path: Path, path: str, why: str) -> None:
    """Through `..` or links; opening special files does not block."""
    secret, folder = tmp_path / "secret", tmp_path / "folder"
    for directory in (secret, folder, folder / "below"):
        directory.mkdir()
    (secret / "secret.csv").write_text("a\n1\n")
    (folder / "outside.csv").symlink_to(secret / "secret.csv")
    (folder / "linked").symlink_to(secret)
    (folder / "round.csv").symlink_to(folder / "round.csv")
    os.mkfifo(folder / "pipe.csv")
    with pytest.raises(InvalidFile, match=why):
        read(Input(source=ItemFile(type="csv", path=path)), folder)


def test_a_link_that_stays_inside_is_followed(tmp_path: Path) -> None:
    """`latest.csv` is often one."""
    (tmp_path / "days").mkdir()
    (tmp_path / "days" / "monday.csv").write_text("a\n1\n")
    (tmp_path / "latest.csv").symlink_to("days/monday.csv")
    assert read(Input(source=ItemFile(type="csv", path="latest.csv")), tmp_path) == [{"a": "1"}]


def test_results_stay_inside_as_well(tmp_path: Path) -> None:
    """The directory for them may be a link."""
    folder = tmp_path / "folder"
    folder.mkdir()
    assert make_directory(folder, "out/results") == folder / "out" / "results"
    (folder / "elsewhere").symlink_to(tmp_path)
    with pytest.raises(Refused) as outside:
        make_directory(folder, "elsewhere")
    (folder / "file").touch()
    with pytest.raises(Refused) as below_a_file:
        make_directory(folder, "file/results")
    assert (outside.value.reason, below_a_file.value.reason) == ("outside", "not_made")
