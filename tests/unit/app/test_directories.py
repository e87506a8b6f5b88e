import os

import pytest

from warmroute.app.directories import SOCKET_PATH_BYTES_MAX, opened
from warmroute.core.errors import ConfigurationError


def mode(path):
    return path.stat().st_mode & 0o777


def test_the_directory_is_made_for_this_user_alone(tmp_path):
    with opened(tmp_path / "a" / "data") as directories:
        assert mode(directories.data) == 0o700
        assert mode(directories.data / "run") == 0o700
        assert mode(directories.data / "warmroute.lock") == 0o600
        assert directories.stream_socket == directories.data / "run" / "fleet.sock"
        assert directories.fleet("router-0") == directories.data / "run" / "router-0.fleet.json"


def test_a_directory_that_is_held_is_refused_with_the_holder(tmp_path):
    message = f"process {os.getpid()} uses it already"
    with opened(tmp_path), pytest.raises(ConfigurationError, match=message), opened(tmp_path):
        pass


def test_a_directory_that_was_given_back_can_be_opened_again(tmp_path):
    for _ in range(2):
        with opened(tmp_path):
            pass


def test_a_directory_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    message = "cannot be used: Not a directory"
    with pytest.raises(ConfigurationError, match=message), opened(tmp_path / "file" / "data"):
        pass


def test_sockets_of_a_long_path_are_elsewhere_and_go_at_the_end(tmp_path):
    with opened(tmp_path / ("d" * SOCKET_PATH_BYTES_MAX)) as directories:
        sockets = directories.sockets
        directories.control_socket.touch()
        assert len(os.fsencode(directories.control_socket)) <= SOCKET_PATH_BYTES_MAX
        assert mode(sockets) == 0o700
    assert not sockets.exists()


def test_sockets_are_taken_away_and_the_fleet_stays(tmp_path):
    with opened(tmp_path) as directories:
        directories.control_socket.touch()
        directories.fleet("router-0").touch()
    assert not directories.control_socket.exists()
    assert directories.fleet("router-0").exists()
