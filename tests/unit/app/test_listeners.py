import socket

import pytest

from warmroute.app.listeners import listen, url_of
from warmroute.core.errors import ConfigurationError


def bind(host="127.0.0.1", port=0):
    return listen(host=host, port=port, host_key="server.host", port_flag="--port")


def test_listens_and_says_where():
    with bind() as listener:
        host, port = listener.getsockname()
        assert url_of(listener) == f"http://{host}:{port}"
        socket.create_connection((host, port), timeout=5).close()


def test_an_ipv6_address_stands_in_brackets():
    with bind("::1") as listener:
        assert url_of(listener).startswith("http://[::1]:")


@pytest.mark.parametrize(("host", "shown"), [("0.0.0.0", "127.0.0.1"), ("::", "[::1]")])
def test_a_wildcard_is_shown_as_an_address_that_can_be_called(host, shown):
    with bind(host) as listener:
        assert url_of(listener).startswith(f"http://{shown}:")


def test_a_taken_port_is_named():
    with bind() as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"--port {port}: another process listens on 127.0.0.1"):
            bind(port=port)


def test_an_address_of_another_machine_is_named():
    with pytest.raises(ConfigurationError, match=r"server\.host = 192\.0\.2\.1: this machine has no such"):
        bind("192.0.2.1")


def test_something_that_is_no_address_is_named():
    with pytest.raises(ConfigurationError, match=r"server\.host = no such host: not an address here"):
        bind("no such host")
