"""Damage and what it is called."""

import lmc_gpu
import lmc_gpu.numpy
import pytest


def test_damage_names_tensor_and_chunk(archive):
    path, tensors = archive
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    for work in (
        lambda: lmc_gpu.verify(path),
        lambda: lmc_gpu.numpy.load_file(path),
        lambda: lmc_gpu.decompress_file(path, path.with_name("out")),
        lambda: lmc_gpu.safe_open(path).get_tensor("a"),
    ):
        with pytest.raises(lmc_gpu.CorruptError) as caught:
            work()
        assert caught.value.tensor == "a"
        assert isinstance(caught.value.chunk, int)
        assert caught.value.file == str(path)
    assert not path.with_name("out").exists()
    assert (lmc_gpu.safe_open(path).get_tensor("b.c") == tensors["b.c"]).all()
    found = lmc_gpu.verify(path, keep_going=True)
    assert not found["ok"]
    assert found["damage"][0]["tensors"] == ["a"]


def test_every_bit_and_every_cut_is_noticed():
    packed = lmc_gpu.compress(bytes(range(100)) * 40)
    for at in range(len(packed)):
        for bit in (0, 3, 7):
            bad = bytearray(packed)
            bad[at] ^= 1 << bit
            with pytest.raises(lmc_gpu.LmcError):
                lmc_gpu.decompress(bad)
        with pytest.raises(lmc_gpu.LmcError):
            lmc_gpu.decompress(packed[:at])


def test_a_cut_archive_is_truncated_or_corrupt(archive):
    path, _ = archive
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(lmc_gpu.CorruptError):
        lmc_gpu.numpy.load_file(path)


def test_all_errors_are_one_family():
    for name in (
        "ArgumentError",
        "BaseMismatchError",
        "CorruptError",
        "DeviceError",
        "LimitError",
        "MissingFileError",
        "StorageError",
        "TruncatedError",
        "UnsupportedError",
    ):
        assert issubclass(getattr(lmc_gpu, name), lmc_gpu.LmcError)
    assert issubclass(lmc_gpu.ArgumentError, ValueError)
    assert issubclass(lmc_gpu.StorageError, OSError)


def test_a_full_disk_or_a_missing_directory_is_a_StorageError(tmp_path):
    (tmp_path / "x").write_bytes(b"abc")
    with pytest.raises(OSError) as caught:
        lmc_gpu.compress_file(tmp_path / "x", tmp_path / "no" / "where.lmc")
    assert isinstance(caught.value, lmc_gpu.StorageError)


def test_a_tensor_that_is_not_there_is_named_with_those_near(archive):
    with pytest.raises(lmc_gpu.ArgumentError, match="b.c") as caught:
        lmc_gpu.safe_open(archive[0]).get_tensor("b.d")
    assert caught.value.tensor == "b.d"
