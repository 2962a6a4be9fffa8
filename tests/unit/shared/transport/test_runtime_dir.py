"""Addresses, the private runtime directory, and the owner's lock."""

import errno
import os
from pathlib import Path

import pytest

from shared.errors import ConfigurationError
from shared.transport.channels import LIMITS, Channel
from shared.transport.runtime_dir import AddressInUseError, OwnerLock, prepare_runtime_dir


def test_each_channel_has_a_socket_file_in_the_runtime_directory() -> None:
    runtime_dir = Path("/run/berth")
    assert Channel.BINDERS.address(runtime_dir) == "ipc:///run/berth/binders.sock"
    assert len({channel.address(runtime_dir) for channel in Channel}) == len(Channel)


def test_every_channel_has_its_bounds() -> None:
    assert set(LIMITS) == set(Channel)


def test_a_runtime_directory_whose_socket_paths_are_too_long_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / ("d" * (107 - len(f"{tmp_path}/") - len("/snapshots.sock")))
    prepare_runtime_dir(folder)
    with pytest.raises(ConfigurationError, match=r"1 byte\(s\) too long; choose a shorter"):
        prepare_runtime_dir(Path(f"{folder}d"))
    assert not Path(f"{folder}d").exists()


def test_the_runtime_directory_is_made_private(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    prepare_runtime_dir(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    prepare_runtime_dir(folder)


def test_a_runtime_directory_that_others_can_enter_is_refused_with_the_remedy(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o755)
    with pytest.raises(
        ConfigurationError, match=f"mode is 0755.*--runtime-dir {folder}/"
    ) as raised:
        prepare_runtime_dir(folder)
    # It may be everybody's, as the system's temporary one is.
    assert "chmod" not in str(raised.value)


def test_a_runtime_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(ConfigurationError, match="cannot be made"):
        prepare_runtime_dir(path)


def test_one_owner_at_a_time_and_the_refusal_names_the_other(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with OwnerLock(folder), pytest.raises(AddressInUseError, match=rf"pid {os.getpid()}\)"):
        OwnerLock(folder)
    OwnerLock(folder).close()


def test_a_lock_that_cannot_be_opened_is_named_with_the_remedy(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (folder / "owner.lock").mkdir(parents=True)
    folder.chmod(0o700)
    with pytest.raises(ConfigurationError, match=r"owner\.lock.*choose another --runtime-dir"):
        OwnerLock(folder)


def test_a_full_disk_costs_the_message_its_number_and_not_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    folder = tmp_path / "run"
    with OwnerLock(folder), pytest.raises(AddressInUseError, match="pid unknown"):
        OwnerLock(folder)
