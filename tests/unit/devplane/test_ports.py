"""The ports that processes are told to listen on."""

from tollbar.devplane.ports import free_ports


def test_they_differ() -> None:
    assert len(set(free_ports(20))) == 20
