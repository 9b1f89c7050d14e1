"""Kubernetes' CEL types ip and cidr, as addresses of the standard library.

As in Kubernetes, zones, IPv4 addresses in IPv6 notation (`::ffff:1.2.3.4`) and leading zeros are refused, and a cidr
keeps the bits of its address after the prefix; masked() clears them.
"""

import ipaddress
import re
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Any, Final, TypeAlias

from tollbar.cel.core.limits import MAX_NUMBER, CostTracker, Fault
from tollbar.cel.library.functions import overload, parses

Address: TypeAlias = IPv4Address | IPv6Address
Block: TypeAlias = IPv4Interface | IPv6Interface

_STEPS: Final = {4: 210, 6: 520}
"""For reading an address of a family, which a colon tells."""
_FORM_STEPS: Final = 110
"""For seeing whether a text has the form of a cidr."""
_BLOCK_STEPS: Final = {4: 450, 6: 690}
"""For reading a cidr, apart from its address."""
_TEXT_STEPS: Final = 480
_PROPERTY_STEPS: Final = 130
_BLOCK: Final = re.compile(r"(?P<address>[^/%]+)/(?P<length>0|[1-9][0-9]{0,2})")
_BROADCAST: Final = IPv4Address("255.255.255.255")
_LOCAL_MULTICAST_4: Final = ipaddress.ip_network("224.0.0.0/24")
_LOCAL_MULTICAST_6: Final = 0xFF02
_LINK_LOCAL: Final = {4: ipaddress.ip_network("169.254.0.0/16"), 6: ipaddress.ip_network("fe80::/10")}


def _family(text: str) -> int:
    return 6 if ":" in text[:MAX_NUMBER] else 4


def to_ip(cost: CostTracker, text: str) -> Address:
    cost.charge(_STEPS[_family(text)])
    if len(text) > MAX_NUMBER or "%" in text:
        raise Fault("not an IP address")
    try:
        address: Address = IPv6Address(text) if ":" in text else IPv4Address(text)
    except ValueError:
        raise Fault("not an IP address") from None
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        raise Fault("IPv4-mapped IPv6 address is not allowed")
    return address


def to_cidr(cost: CostTracker, text: str) -> Block:
    cost.charge(_FORM_STEPS)
    form = _BLOCK.fullmatch(text) if len(text) <= MAX_NUMBER else None
    if form is None:
        raise Fault("not a CIDR")
    cost.charge(_BLOCK_STEPS[_family(text)])
    to_ip(cost, form["address"])
    try:
        return ipaddress.ip_interface(text)
    except ValueError:
        raise Fault("not a CIDR") from None


def _is_canonical(cost: CostTracker, text: str) -> bool:
    return str(to_ip(cost, text)) == text


def _is_link_local_multicast(_: CostTracker, address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return address in _LOCAL_MULTICAST_4
    return int(address) >> 112 & 0xFF0F == _LOCAL_MULTICAST_6


def _is_link_local(_: CostTracker, address: Address) -> bool:
    return address in _LINK_LOCAL[address.version]


def _is_global_unicast(cost: CostTracker, address: Address) -> bool:
    return not (
        address.is_unspecified
        or address == _BROADCAST
        or address.is_loopback
        or address.is_multicast
        or _is_link_local(cost, address)
    )


def _contains_ip(cost: CostTracker, block: Block, other: Any) -> bool:
    address = to_ip(cost, other) if type(other) is str else other
    return address in block.network


def _contains_cidr(cost: CostTracker, block: Block, other: Any) -> bool:
    inner = to_cidr(cost, other) if type(other) is str else other
    longer = block.network.prefixlen <= inner.network.prefixlen
    return bool(block.version == inner.version and longer and inner.network.network_address in block.network)


def _masked(_: CostTracker, block: Block) -> Block:
    return ipaddress.ip_interface(block.network)


OVERLOADS: Final = (
    overload("ip(string) -> ip", to_ip),
    overload("isIP(string) -> bool", parses(to_ip)),
    overload(".ip.isCanonical(string) -> bool", _is_canonical, _TEXT_STEPS),
    overload("ip.family() -> int", lambda _, address: address.version),
    overload("ip.isUnspecified() -> bool", lambda _, address: address.is_unspecified, _PROPERTY_STEPS),
    overload("ip.isLoopback() -> bool", lambda _, address: address.is_loopback, _PROPERTY_STEPS),
    overload("ip.isLinkLocalMulticast() -> bool", _is_link_local_multicast, _PROPERTY_STEPS),
    overload("ip.isLinkLocalUnicast() -> bool", _is_link_local, _PROPERTY_STEPS),
    overload("ip.isGlobalUnicast() -> bool", _is_global_unicast, _PROPERTY_STEPS),
    overload("string(ip) -> string", lambda _, address: str(address), _TEXT_STEPS),
    overload("cidr(string) -> cidr", to_cidr),
    overload("isCIDR(string) -> bool", parses(to_cidr)),
    overload("cidr.containsIP(string) -> bool", _contains_ip, 50),
    overload("cidr.containsIP(ip) -> bool", _contains_ip, 50),
    overload("cidr.containsCIDR(string) -> bool", _contains_cidr, 140),
    overload("cidr.containsCIDR(cidr) -> bool", _contains_cidr, 140),
    overload("cidr.ip() -> ip", lambda _, block: block.ip, 20),
    overload("cidr.prefixLength() -> int", lambda _, block: block.network.prefixlen),
    overload("cidr.masked() -> cidr", _masked, 1_900),
    overload("string(cidr) -> string", lambda _, block: str(block), 2 * _TEXT_STEPS),
)
