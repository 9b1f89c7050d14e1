"""Kubernetes' CEL types ip and cidr.

As in Kubernetes, zones, IPv4 addresses in IPv6 notation (`::ffff:1.2.3.4`) and leading zeros are refused, and a cidr
keeps the bits of its address after the prefix; masked() clears them.
"""

import re
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final, TypeAlias

from tollbar.cel.core.limits import MAX_NUMBER, CostTracker, Fault
from tollbar.cel.core.values import Cidr, Ip
from tollbar.cel.library.functions import overload, parses

_Range: TypeAlias = tuple[int, int]
"""The first bits of addresses, and how many bits follow them."""

_STEPS: Final = {4: 240, 6: 520}
"""For reading an address of a family, which a colon tells."""
_FORM_STEPS: Final = 110
"""For seeing whether a text has the form of a cidr."""
_BLOCK_STEPS: Final = 60
"""For a cidr, apart from its form and its address."""
_TEXT_STEPS: Final = 480
_PROPERTY_STEPS: Final = 40
_BITS: Final = {4: 32, 6: 128}
_BLOCK: Final = re.compile(r"(?P<address>[^/%]+)/(?P<length>0|[1-9][0-9]{0,2})")
_BROADCAST: Final = Ip(4, 0xFFFFFFFF)
_LOOPBACK: Final[dict[int, _Range]] = {4: (127, 24), 6: (1, 0)}
_MULTICAST: Final[dict[int, _Range]] = {4: (0xE, 28), 6: (0xFF, 120)}
_LINK_LOCAL: Final[dict[int, _Range]] = {4: (0xA9FE, 16), 6: (0xFE80 >> 6, 118)}
_LOCAL_MULTICAST_4: Final = 0xE00000
_LOCAL_MULTICAST_6: Final = 0xFF02


def _family(text: str) -> int:
    return 6 if ":" in text[:MAX_NUMBER] else 4


def to_ip(cost: CostTracker, text: str) -> Ip:
    version = _family(text)
    cost.charge(_STEPS[version])
    if len(text) > MAX_NUMBER or "%" in text:
        raise Fault("not an IP address")
    try:
        address = IPv6Address(text) if version == 6 else IPv4Address(text)
    except ValueError:
        raise Fault("not an IP address") from None
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        raise Fault("IPv4-mapped IPv6 address is not allowed")
    return Ip(version, int(address))


def to_cidr(cost: CostTracker, text: str) -> Cidr:
    cost.charge(_FORM_STEPS)
    form = _BLOCK.fullmatch(text) if len(text) <= MAX_NUMBER else None
    if form is None:
        raise Fault("not a CIDR")
    cost.charge(_BLOCK_STEPS)
    address, length = to_ip(cost, form["address"]), int(form["length"])
    if length > _BITS[address.version]:
        raise Fault("not a CIDR")
    return Cidr(address, length)


def _is_canonical(cost: CostTracker, text: str) -> bool:
    return str(to_ip(cost, text)) == text


def _is_in(address: Ip, ranges: dict[int, _Range]) -> bool:
    first, bits = ranges[address.version]
    return address.number >> bits == first


def _is_link_local_multicast(_: CostTracker, address: Ip) -> bool:
    if address.version == 4:
        return address.number >> 8 == _LOCAL_MULTICAST_4
    return address.number >> 112 & 0xFF0F == _LOCAL_MULTICAST_6


def _is_global_unicast(_: CostTracker, address: Ip) -> bool:
    is_other = any(_is_in(address, ranges) for ranges in (_LOOPBACK, _MULTICAST, _LINK_LOCAL))
    return not (is_other or address.number == 0 or address == _BROADCAST)


def _after(block: Cidr) -> int:
    """How many bits follow the prefix."""
    return _BITS[block.address.version] - block.length


def _contains(block: Cidr, address: Ip) -> bool:
    mine = block.address
    return mine.version == address.version and (mine.number ^ address.number) >> _after(block) == 0


def _contains_ip(cost: CostTracker, block: Cidr, other: Any) -> bool:
    return _contains(block, to_ip(cost, other) if type(other) is str else other)


def _contains_cidr(cost: CostTracker, block: Cidr, other: Any) -> bool:
    inner = to_cidr(cost, other) if type(other) is str else other
    return block.length <= inner.length and _contains(block, inner.address)


def _masked(_: CostTracker, block: Cidr) -> Cidr:
    after = _after(block)
    return Cidr(Ip(block.address.version, block.address.number >> after << after), block.length)


OVERLOADS: Final = (
    overload("ip(string) -> ip", to_ip),
    overload("isIP(string) -> bool", parses(to_ip)),
    overload(".ip.isCanonical(string) -> bool", _is_canonical, _TEXT_STEPS),
    overload("ip.family() -> int", lambda _, address: address.version),
    overload("ip.isUnspecified() -> bool", lambda _, address: address.number == 0),
    overload("ip.isLoopback() -> bool", lambda _, address: _is_in(address, _LOOPBACK), _PROPERTY_STEPS),
    overload("ip.isLinkLocalMulticast() -> bool", _is_link_local_multicast, _PROPERTY_STEPS),
    overload("ip.isLinkLocalUnicast() -> bool", lambda _, address: _is_in(address, _LINK_LOCAL), _PROPERTY_STEPS),
    overload("ip.isGlobalUnicast() -> bool", _is_global_unicast, 80),
    overload("string(ip) -> string", lambda _, address: str(address), _TEXT_STEPS),
    overload("cidr(string) -> cidr", to_cidr),
    overload("isCIDR(string) -> bool", parses(to_cidr)),
    overload("cidr.containsIP(string) -> bool", _contains_ip, 50),
    overload("cidr.containsIP(ip) -> bool", _contains_ip, 50),
    overload("cidr.containsCIDR(string) -> bool", _contains_cidr, 50),
    overload("cidr.containsCIDR(cidr) -> bool", _contains_cidr, 50),
    overload("cidr.ip() -> ip", lambda _, block: block.address),
    overload("cidr.prefixLength() -> int", lambda _, block: block.length),
    overload("cidr.masked() -> cidr", _masked, 100),
    overload("string(cidr) -> string", lambda _, block: str(block), _TEXT_STEPS + 20),
)
