"""Metrics as JSON lines: valid JSON, whole lines, and damaged files."""

import errno
import json
import math

import numpy as np
import pytest
from nnx_ppo_train import JSONLinesLogger
from nnx_ppo_train._json_lines import read_metrics


def refuse(text):
    raise ValueError(f"{text} is no JSON")


def strict(path):
    return [json.loads(line, parse_constant=refuse) for line in path.read_text().splitlines()]


def test_lines_are_valid_json_whatever_the_values(tmp_path):
    path = tmp_path / "new" / "metrics.jsonl"
    with JSONLinesLogger(path) as log:
        log({"a": math.nan, "b": math.inf, "c": np.float32(0.5), "d": 3, "e": True}, 0)
        log({"many": np.array([1.0, np.nan, -np.inf]), "one": np.array(2)}, 16)
    first, second = strict(path)
    assert (first["step"], second["step"]) == (0, 16)
    assert [first[name] for name in "abcde"] == [None, None, 0.5, 3, True]
    assert (second["many"], second["one"]) == ([1.0, None, None], 2)


def test_null_is_read_as_nan_and_what_is_absent_stays_absent(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with JSONLinesLogger(path) as log:
        log({"loss": math.nan, "x": 1.0}, 0)
        log({"x": 2.0}, 16)
    first, second = read_metrics(path)
    assert math.isnan(first["loss"])
    assert "loss" not in second


def test_file_goes_on_after_a_step_and_a_new_one_is_asked_for_otherwise(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with JSONLinesLogger(path) as log:
        for step in (0, 16, 32):
            log({"x": [1, 2]}, step)
    with pytest.raises(ValueError, match=r"expected a new file, got one with 3 lines; choose"):
        JSONLinesLogger(path)
    assert len(strict(path)) == 3
    with JSONLinesLogger(path, start_step=16) as log:
        log({"x": 5}, 16)  # has its line
        log({"x": 6}, 32)
    assert [line["x"] for line in strict(path)] == [[1, 2], [1, 2], 6]
    log.close()  # once more
    with pytest.raises(TypeError, match="start_step: expected a whole number"):
        JSONLinesLogger(path, start_step=1.5)


def test_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match="expected the path of a file, got that of a folder"):
        JSONLinesLogger(tmp_path, 0)


def test_damaged_lines_are_left_out(tmp_path):
    path = tmp_path / "metrics.jsonl"
    good = [json.dumps({"step": step, "x": 1}).encode() for step in (0, 16)]
    bad = [
        b"\xff\xfe\x00", b"[1, 2]", b"5", b"null", b'{"x": 1}', b'{"step": "8"}', b'{"step": true}',
        b'{"step": -1}', b'{"step": 1e400}', b"[" * 100_000, b'{"step": 8, "x": ',
        b'{"step": 9' + b"9" * 5000 + b"}",
    ]  # fmt: skip
    odd = b'{"step": 8, "x": "text", "y": 1e400, "z": [1], "big": 1' + b"0" * 400 + b"}"
    path.write_bytes(b"\n".join([good[0], *bad, odd, b"", good[1], b'{"step": 24, "cut sho']))
    lines = read_metrics(path)
    assert [line["step"] for line in lines] == [0, 8, 16]
    assert lines[1].keys() == {"step", "y", "big"}
    assert math.isnan(lines[1]["y"])
    assert math.isnan(lines[1]["big"])
    with JSONLinesLogger(path, start_step=16) as log:
        log({"x": 2}, 32)
    assert [line["step"] for line in strict(path)[:1]] == [0]
    assert [line["step"] for line in read_metrics(path)] == [0, 8, 16, 32]


class FullDisk:
    """A file on a disk that takes some bytes of a line, and no more until it is emptied."""

    def __init__(self, file):
        self._file = file
        self.full = True

    def write(self, data):
        if self.full and len(data) > 5:
            return self._file.write(data[:5])
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._file.write(data)

    def __getattr__(self, name):
        return getattr(self._file, name)


def test_full_disk_leaves_whole_lines_and_loses_none(tmp_path):
    path = tmp_path / "metrics.jsonl"
    log = JSONLinesLogger(path)
    log({"x": 0}, 0)
    disk = log._file = FullDisk(log._file)
    for step in (16, 32):
        with pytest.raises(OSError, match="No space left"):
            log({"x": step}, step)
        assert [line["step"] for line in strict(path)] == [0]
    disk.full = False
    log({"x": 48}, 48)
    log.close()
    assert [line["step"] for line in strict(path)] == [0, 16, 32, 48]
