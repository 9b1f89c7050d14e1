"""Kubernetes' CEL type url: absolute URLs and absolute paths, as Go's net/url parses them.

urllib differs from Go in what a host may contain and how a path is escaped again, so URLs are parsed here, on bytes as
in Go.
"""

import ipaddress
import re
from typing import Any, Final

from tollbar.cel.core.limits import CostTracker, Fault
from tollbar.cel.core.values import Url
from tollbar.cel.library.functions import overload, parses
from tollbar.cel.library.strings import go_quoted

_UNRESERVED: Final = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~"
_HOST: Final = _UNRESERVED + b"!$&'()*+,;=:[]<>\""
_PATH: Final = _UNRESERVED + b"$&+,/:;=@"
_WRITTEN_PATH: Final = _PATH + b"!'()*[]%"
_USER: Final = _UNRESERVED + b"$&+,;="
_FRAGMENT: Final = _UNRESERVED + b"$&+,/:;=?@!()*"
_WRITTEN_FRAGMENT: Final = _FRAGMENT + b"'[]%"
_BEYOND_ASCII: Final = bytes(range(128, 256))
_USER_INFORMATION: Final = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PORT: Final = re.compile(r"(?::[0-9]*)?")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_ESCAPE: Final = re.compile(rb"%(?P<code>[0-9a-fA-F]{2})?")
_ONE_COLON: Final = frozenset({"http", "https"})
"""Schemes whose hosts have no other colon than that of the port."""


_URL_STEPS: Final = 660
_CHARACTERS_PER_STEP: Final = 1
_ESCAPED_STEPS: Final = 60
"""For a character that is, or has to be, escaped."""
_PARAMETER_STEPS: Final = 170
_PART_STEPS: Final = 66


class NotUrl(Exception):
    """Why a text is not a URL, with the text of Go's error."""


def to_url(cost: CostTracker, text: str) -> Url:
    """The URL; a fragment is allowed where Go's ParseRequestURI takes it as part of the path or the query."""
    _checked(cost, text)
    cost.charge(_URL_STEPS)
    _charge(cost, text)
    whole, _, fragment = text.partition("#")
    try:
        return read(whole, fragment, request=False)
    except NotUrl:
        raise Fault("not a URL") from None


def _charge(cost: CostTracker, text: str) -> None:
    """Charges for reading a text with escapes."""
    cost.charge(len(text) // _CHARACTERS_PER_STEP + text.count("%") * _ESCAPED_STEPS)


def _checked(cost: CostTracker, text: str) -> None:
    cost.charge(_URL_STEPS)
    _charge(cost, text)
    cost.new_string(3 * len(text))
    try:
        read(text)
    except NotUrl:
        raise Fault("not a URL") from None


def read(text: str, fragment: str = "", *, request: bool = True) -> Url:
    """The URL of a text, and of a fragment cut from it; raises NotUrl.

    A text that starts with // is a path with `request`, and names a host without it.
    """
    if _CONTROL.search(text):
        raise NotUrl("net/url: invalid control character in URL")
    if not text:
        raise NotUrl("empty url")
    if text == "*":
        return Url("*", path="*")
    if text.startswith(":"):
        raise NotUrl("missing protocol scheme")
    found = _SCHEME.match(text)
    scheme = found[0][:-1].lower() if found else ""
    rest, mark, query = text[found.end() if found else 0 :].partition("?")
    prefix, host, path = (f"{scheme}:" if scheme else ""), b"", ""
    if rest.startswith("/"):
        if rest.startswith("//") and (scheme or not (request or rest.startswith("///"))):
            authority, slash, below = rest[2:].partition("/")
            user, host = _authority(scheme, authority)
            rest = f"{slash}{below}"
            if user or host or rest:
                prefix += f"//{user}{_escaped(host, _ESCAPED_HOST)}"
        path = _written(rest, _WRITTEN_PATH, _ESCAPED_PATH)
        rest = path
    elif not scheme:
        raise NotUrl("invalid URI for request")
    end = f"#{_written(fragment, _WRITTEN_FRAGMENT, _ESCAPED_FRAGMENT)}" if fragment else ""
    return Url(f"{prefix}{rest}{mark}{query}{end}", scheme, _text(host), path, query)


def _authority(scheme: str, authority: str) -> tuple[str, bytes]:
    """User information in its normal form, and host."""
    information, at, host = authority.rpartition("@")
    address = _host(scheme, host)
    if not at:
        return "", address
    if not _USER_INFORMATION.fullmatch(information):
        raise NotUrl("net/url: invalid userinfo")
    name, colon, password = information.partition(":")
    parts = (_escaped(_unescaped(part), _ESCAPED_USER) for part in ((name, password) if colon else (name,)))
    return f"{':'.join(parts)}@", address


def _host(scheme: str, host: str) -> bytes:
    bracket = host.rfind("[")
    if bracket > 0:
        raise NotUrl("invalid IP-literal")
    if bracket == 0:
        return _bracketed(host)
    if ":" in host:
        _check_port(host[host.find(":") if scheme in _ONE_COLON else host.rfind(":") :])
    return _unescaped_host(host)


def _bracketed(host: str) -> bytes:
    """An IPv6 address with an optional zone."""
    end = host.rfind("]")
    if end < 0:
        raise NotUrl("missing ']' in host")
    _check_port(host[end + 1 :])
    name, percent, zone = host[1:end].partition("%25")
    address = _unescaped_host(name) + (_unescaped_host(percent + zone, zone=True))
    match _family(_text(address)):
        case None:
            raise NotUrl("invalid host")
        case 4:
            raise NotUrl("invalid IP-literal")
    return b"[" + address + b"]" + host[end + 1 :].encode()


def _check_port(port: str) -> None:
    if not _PORT.fullmatch(port):
        raise NotUrl(f"invalid port {go_quoted(port)} after host")


def _family(text: str) -> int | None:
    """4 or 6 for an IP address; only those of IPv6 have zones."""
    address, percent, zone = text.partition("%")
    try:
        family = ipaddress.ip_address(address).version
    except ValueError:
        return None
    return None if percent and (family == 4 or not zone) else family


def _unescaped_host(text: str, *, zone: bool = False) -> bytes:
    """In a host only % and what is not ASCII may be escaped, in a zone also what a host may contain."""
    data = _bytes(text)
    wrong = _ESCAPE.sub(b"", data).translate(None, _HOST + _BEYOND_ASCII)
    if wrong:
        raise NotUrl(f"invalid character {go_quoted(chr(wrong[0]))} in host name")
    for found in _ESCAPE.finditer(data):
        value = int(found["code"] or b"0", 16)
        allowed = value == ord("%") or (value in _HOST or value == ord(" ") if zone else value >= 0x80)
        if found["code"] and not allowed:
            raise _wrong_escape(found)
    return _unescaped(text)


def _unescaped(text: str) -> bytes:
    data = _bytes(text)
    return _ESCAPE.sub(_byte, data) if b"%" in data else data


def _byte(found: re.Match[bytes]) -> bytes:
    if not found["code"]:
        raise _wrong_escape(found)
    return bytes([int(found["code"], 16)])


def _wrong_escape(found: re.Match[bytes]) -> NotUrl:
    escape = found.string[found.start() : found.start() + 3]
    return NotUrl(f"invalid URL escape {go_quoted(escape.decode(errors='surrogateescape'))}")


def _written(text: str, writable: bytes, table: tuple[str, ...]) -> str:
    """The text as it is if all of its characters are allowed, else with everything escaped that has to be."""
    data = _unescaped(text)
    return _escaped(data, table) if _bytes(text).translate(None, writable) else text


def _table(allowed: bytes) -> tuple[str, ...]:
    """The escaped form of each byte."""
    return tuple(chr(byte) if byte in allowed else f"%{byte:02X}" for byte in range(256))


_ESCAPED_HOST: Final = _table(_HOST)
_ESCAPED_PATH: Final = _table(_PATH)
_ESCAPED_USER: Final = _table(_USER)
_ESCAPED_FRAGMENT: Final = _table(_FRAGMENT)


def _escaped(data: bytes, table: tuple[str, ...]) -> str:
    return "".join(map(table.__getitem__, data))


def _bytes(text: str) -> bytes:
    return text.encode(errors="replace")


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def host_and_port(host: str) -> tuple[str, str]:
    name, colon, port = host.rpartition(":")
    if not colon or not _PORT.fullmatch(f":{port}"):
        name, port = host, ""
    return (name[1:-1] if name.startswith("[") and name.endswith("]") else name), port


def query_of(cost: CostTracker, url: Url) -> dict[str, Any]:
    """The parameters, each with its values; parameters that cannot be unescaped are left out."""
    result: dict[str, Any] = {}
    for part in url.query.split("&"):
        cost.charge(_PARAMETER_STEPS)
        _charge(cost, part)
        if not part or ";" in part:
            continue
        key, _, value = part.partition("=")
        try:
            name, text = (_text(_unescaped(side.replace("+", " "))) for side in (key, value))
        except NotUrl:
            continue
        cost.new_list(2)
        cost.new_string(len(part))
        result.setdefault(name, []).append(text)
    return result


OVERLOADS: Final = (
    overload("url(string) -> url", to_url),
    overload("isURL(string) -> bool", parses(_checked)),
    overload("url.getScheme() -> string", lambda _, url: url.scheme),
    overload("url.getHost() -> string", lambda _, url: url.host),
    overload("url.getHostname() -> string", lambda _, url: host_and_port(url.host)[0], _PART_STEPS),
    overload("url.getPort() -> string", lambda _, url: host_and_port(url.host)[1], _PART_STEPS),
    overload("url.getEscapedPath() -> string", lambda _, url: url.path),
    overload("url.getQuery() -> map<list<string>>", query_of),
)
