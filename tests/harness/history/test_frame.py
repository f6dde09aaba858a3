"""The journal's frames: a prefix is a torn end, anything else that is wrong is found and named with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.history.errors import HistoryError
from harness.history.frame import HEADER_BYTES, FrameFile, FrameKind, FrameReader, Identity, encode

IDENTITY = Identity(run="r", clock="host", writer=3, client="w1", table="reads")
PAYLOADS = [b"", b"a", b"some payload", bytes(300)]


def written(path: Path) -> list[int]:
    """A file with one frame per payload; returns where each frame starts, and the file's size."""
    file = FrameFile(path, IDENTITY)
    starts = []
    for number, payload in enumerate(PAYLOADS):
        starts.append(path.stat().st_size)
        file.append(encode(FrameKind.BATCH, number, number * 10, payload))
    file.close()
    return [*starts, path.stat().st_size]


def test_frames_come_back_as_written(tmp_path: Path) -> None:
    starts = written(tmp_path / "f")
    reader = FrameReader(tmp_path / "f")
    assert reader.identity() == IDENTITY
    frames = list(reader.frames())
    assert [bytes(frame.payload) for frame in frames] == PAYLOADS
    assert [(frame.rows, frame.first, frame.at) for frame in frames] == [(n, n * 10, starts[n]) for n in range(4)]
    assert reader.torn_bytes == 0
    assert [bytes(reader.frame_at(f.at, len(f.payload)).payload) for f in frames] == PAYLOADS


def test_frames_across_block_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "f")
    for block in range(HEADER_BYTES, 200, 7):
        monkeypatch.setattr("harness.history.frame._READ_BYTES", block)
        assert [bytes(frame.payload) for frame in FrameReader(tmp_path / "f").frames()] == PAYLOADS


def test_any_prefix_is_whole_frames_and_a_torn_end(tmp_path: Path) -> None:
    starts = written(tmp_path / "f")
    whole = (tmp_path / "f").read_bytes()
    for size in range(len(whole) + 1):
        (tmp_path / "cut").write_bytes(whole[:size])
        reader = FrameReader(tmp_path / "cut")
        assert len(list(reader.frames())) == sum(end <= size for end in starts[1:])
        edges = [0, *starts]
        assert reader.torn_bytes == size - max(edge for edge in edges if edge <= size)
        assert (reader.identity() is None) == (size < starts[0])


def test_a_flipped_bit_anywhere_is_found_at_its_frame(tmp_path: Path) -> None:
    starts = [0, *written(tmp_path / "f")]
    whole = (tmp_path / "f").read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        (tmp_path / "f").write_bytes(damaged)
        frame = max(start for start in starts if start <= place)
        with pytest.raises(HistoryError) as caught:
            list(FrameReader(tmp_path / "f").frames())
        assert caught.value.where == f"byte {frame}"
        assert caught.value.path == tmp_path / "f"


def test_without_its_own_checksum_a_damaged_header_would_hide_all_that_follows(tmp_path: Path) -> None:
    """The reason for the header's checksum: a length that points beyond the end looks exactly like a torn frame."""
    starts = written(tmp_path / "f")
    damaged = bytearray((tmp_path / "f").read_bytes())
    length_field = starts[1] + 8
    damaged[length_field + 2] = 0x7F
    (tmp_path / "f").write_bytes(damaged)
    with pytest.raises(HistoryError, match="header of this frame is corrupt"):
        list(FrameReader(tmp_path / "f").frames())


@pytest.mark.parametrize("content", [b"PAR1 and more than a header's worth of it", b"x", b'{"format": 1}\n' * 10])
def test_a_foreign_file_is_not_a_journal(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(HistoryError, match=r"f, byte 0: not a frame"):
        FrameReader(tmp_path / "f").identity()


def test_a_newer_journal_is_refused(tmp_path: Path) -> None:
    FrameFile(tmp_path / "f", Identity(run="r", clock="c", writer=0, client="", table="reads", format=99)).close()
    with pytest.raises(HistoryError, match="journal format 99; this krash reads 1"):
        FrameReader(tmp_path / "f").identity()


def test_a_file_belongs_to_one_writer(tmp_path: Path) -> None:
    FrameFile(tmp_path / "f", IDENTITY).close()
    with pytest.raises(FileExistsError):
        FrameFile(tmp_path / "f", IDENTITY)
