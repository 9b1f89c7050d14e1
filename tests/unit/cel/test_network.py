"""Kubernetes' types ip, cidr and url."""

from collections.abc import Callable
from typing import Any

import pytest

X: dict[str, Any] = {"s": "abc", "ip": "10.1.2.3"}

TRUE = {
    "families": 'ip("1.2.3.4").family() == 4 && ip("::1").family() == 6',
    "isIP": 'isIP("1.2.3.4") && isIP("::") && !isIP("1.2.3") && !isIP("1.2.3.256") && !isIP("") && !isIP("1.2.3.4/8")',
    "no zones": '!isIP("fe80::1%eth0") && !isCIDR("fe80::1%eth0/64")',
    "no IPv4 in IPv6": '!isIP("::ffff:1.2.3.4") && !isCIDR("::ffff:1.2.3.4/128") && isIP("::1.2.3.4")',
    "no leading zeros": '!isIP("01.2.3.4") && !isIP("::01.2.3.4") && isIP("1:02:003:0004::")',
    "addresses of eight groups": (
        'isIP("1:2:3:4:5:6:7::") && !isIP("::1:2:3:4:5:6:7:8") && !isIP("1::2::3") && !isIP("12345::") && !isIP("1:")'
    ),
    "canonical addresses": (
        'string(ip("2001:DB8:0:0:0:0:0:1")) == "2001:db8::1" && string(ip("1:0:0:2:0:0:0:3")) == "1:0:0:2::3"'
        ' && string(ip("1:0:0:2:3:0:0:4")) == "1::2:3:0:0:4" && string(ip("1:0:2:3:4:5:6:7")) == "1:0:2:3:4:5:6:7"'
    ),
    "isCanonical": 'ip.isCanonical("::1") && !ip.isCanonical("0::1") && !ip.isCanonical("ABCD::1")',
    "unspecified": 'ip("0.0.0.0").isUnspecified() && ip("::").isUnspecified() && !ip("::1").isUnspecified()',
    "loopback": 'ip("127.9.9.9").isLoopback() && ip("::1").isLoopback() && !ip("10.0.0.1").isLoopback()',
    "link-local multicast": (
        'ip("224.0.0.9").isLinkLocalMulticast() && !ip("224.0.1.9").isLinkLocalMulticast()'
        ' && ip("ff02::1").isLinkLocalMulticast() && ip("ff12::1").isLinkLocalMulticast()'
        ' && !ip("ff03::1").isLinkLocalMulticast()'
    ),
    "link-local unicast": (
        'ip("169.254.1.1").isLinkLocalUnicast() && ip("febf::1").isLinkLocalUnicast()'
        ' && !ip("fec0::1").isLinkLocalUnicast() && !ip("169.255.1.1").isLinkLocalUnicast()'
    ),
    "global unicast": (
        'ip("10.0.0.1").isGlobalUnicast() && ip("240.0.0.1").isGlobalUnicast() && ip("2001:db8::1").isGlobalUnicast()'
        ' && !ip("0.0.0.0").isGlobalUnicast() && !ip("255.255.255.255").isGlobalUnicast()'
        ' && !ip("224.0.0.1").isGlobalUnicast() && !ip("::").isGlobalUnicast() && !ip("ff00::1").isGlobalUnicast()'
        ' && !ip("fe80::1").isGlobalUnicast() && !ip("127.0.0.1").isGlobalUnicast()'
    ),
    "addresses are equal": 'ip("::1") == ip("0::1") && ip("1.2.3.4") != ip("::1.2.3.4")',
    "an address from data": 'ip(x.ip) == ip("10.1.2.3")',
    "isCIDR": (
        'isCIDR("10.0.0.0/8") && isCIDR("::/128") && isCIDR("10.0.0.0/0") && !isCIDR("10.0.0.0/33")'
        ' && !isCIDR("::/129") && !isCIDR("10.0.0.0/08") && !isCIDR("10.0.0.0/-1") && !isCIDR("10.0.0.0/+1")'
        ' && !isCIDR("10.0.0.0/") && !isCIDR("10.0.0.0") && !isCIDR("10.0.0.0/8/8")'
    ),
    "a network mask is no prefix length": '!isCIDR("10.0.0.0/255.0.0.0")',
    "parts of a cidr": (
        'cidr("10.1.2.3/8").ip() == ip("10.1.2.3") && cidr("10.1.2.3/8").prefixLength() == 8'
        ' && string(cidr("10.1.2.3/8")) == "10.1.2.3/8" && string(cidr("2001:DB8::1/32")) == "2001:db8::1/32"'
    ),
    "masked": 'cidr("10.1.2.3/8").masked() == cidr("10.0.0.0/8") && cidr("10.1.2.3/8") != cidr("10.0.0.0/8")',
    "containsIP": (
        'cidr("10.0.0.0/8").containsIP("10.9.9.9") && cidr("10.0.0.0/8").containsIP(ip(x.ip))'
        ' && !cidr("10.0.0.0/8").containsIP("11.0.0.0") && !cidr("10.0.0.0/8").containsIP("::1")'
    ),
    "containsCIDR": (
        'cidr("10.0.0.0/8").containsCIDR("10.1.0.0/16") && !cidr("10.1.0.0/16").containsCIDR(cidr("10.0.0.0/8"))'
        ' && cidr("10.1.2.3/16").containsCIDR("10.1.0.0/16") && !cidr("0.0.0.0/0").containsCIDR("::/0")'
    ),
    "types": 'type(ip("::1")) == net.IP && type(cidr("::/0")) == net.CIDR',
    "isURL": (
        'isURL("https://a.b/c?d=e") && isURL("/path") && isURL("http:a") && isURL("*") && isURL("http://")'
        ' && !isURL("path") && !isURL("") && !isURL("?q") && !isURL("#f") && !isURL("://a") && !isURL("1http://a")'
    ),
    "characters of a host": (
        'isURL("http://é/") && isURL("http://a<b/") && !isURL("http://a b/") && !isURL("http://a{b/")'
        ' && !isURL("http://a%41/") && !isURL("http://a#b")'
    ),
    "ports": (
        'isURL("http://a:/") && isURL("http://1.2.3.4:80000/") && !isURL("http://a:b/") && !isURL("http://a:80:90/")'
        ' && isURL("x://a:80:90/")'
    ),
    "IPv6 hosts": (
        'isURL("http://[::1]:80/") && isURL("http://[fe80::1%25en0]/") && !isURL("http://[::1")'
        ' && !isURL("http://[a]/") && !isURL("http://[1.2.3.4]/") && !isURL("http://a[::1]/") && !isURL("http://[::1%25]")'
    ),
    "user information": 'isURL("http://u:p@h/") && isURL("http://u@p@h/") && !isURL("http://u{@h/")',
    "escapes": 'isURL("http://a/%41") && !isURL("http://a/%zz") && !isURL("http://a/%4") && isURL("http://a/b c")',
    "control characters": r'!isURL("http://a/\n") && !isURL("http://a\u007f/")',
    "parts of a URL": (
        'url("HTTPS://u:p@EXAMPLE.com:80/a?b=c").getScheme() == "https"'
        ' && url("HTTPS://u:p@EXAMPLE.com:80/a?b=c").getHost() == "EXAMPLE.com:80"'
        ' && url("HTTPS://u:p@EXAMPLE.com:80/a?b=c").getHostname() == "EXAMPLE.com"'
        ' && url("HTTPS://u:p@EXAMPLE.com:80/a?b=c").getPort() == "80"'
        ' && url("HTTPS://u:p@EXAMPLE.com:80/a?b=c").getEscapedPath() == "/a"'
    ),
    "parts of a URL with an IPv6 host": (
        'url("https://[::1]:80/").getHost() == "[::1]:80" && url("https://[::1]:80/").getHostname() == "::1"'
        ' && url("https://[fe80::1%25en0]/").getHostname() == "fe80::1%en0"'
    ),
    "parts that are not there": (
        'url("/path").getScheme() == "" && url("/path").getHost() == "" && url("http://a").getPort() == ""'
        ' && url("mailto:a@b").getEscapedPath() == "" && url("http://a").getQuery() == {}'
    ),
    "two slashes name a host": 'url("//a/b").getHost() == "a" && url("///a").getEscapedPath() == "///a"',
    "escaped paths": (
        'url("/a b/é").getEscapedPath() == "/a%20b/%C3%A9" && url("/%41%2f/[a]").getEscapedPath() == "/%41%2f/[a]"'
        ' && url("/a%2Fb/é").getEscapedPath() == "/a/b/%C3%A9"'
    ),
    "queries": (
        'url("/p?k=1&k=2&j=%20x+y&z").getQuery() == {"k": ["1", "2"], "j": [" x y"], "z": [""]}'
        ' && url("/p?a=%zz&b=1&=2&c&&d=;").getQuery() == {"b": ["1"], "": ["2"], "c": [""]}'
    ),
    "URLs are equal when they are written the same in the end": (
        'url("HTTP://h/a b") == url("http://h/a%20b") && url("http://h/#") == url("http://h/")'
        ' && url("http://h/%41") != url("http://h/A") && url("http://h/?") != url("http://h/")'
        ' && url("http://h/?a#b c") == url("http://h/?a#b%20c") && url("http://u%41@h/") == url("http://uA@h/")'
    ),
}


@pytest.mark.parametrize("source", TRUE.values(), ids=TRUE)
def test_the_expression_is_true(answer: Callable[..., Any], source: str) -> None:
    assert answer(source, x=X) is True


FAILURES = {
    "not an address": ("ip(x.s)", "not an IP address"),
    "an IPv4 address in IPv6": ("ip('::ffff:' + x.ip)", "IPv4-mapped IPv6 address is not allowed"),
    "an address with zone": ("ip('fe80::1%' + x.s)", "not an IP address"),
    "canonical of what is no address": ("ip.isCanonical(x.s)", "not an IP address"),
    "not a network": ("cidr(x.s)", "not a CIDR"),
    "a prefix that is too long": ("cidr(x.ip + '/33')", "not a CIDR"),
    "contains what is no address": ("cidr('10.0.0.0/8').containsIP(x.s)", "not an IP address"),
    "contains what is no network": ("cidr('10.0.0.0/8').containsCIDR(x.s)", "not a CIDR"),
    "not a URL": ("url(x.s)", "not a URL"),
    "two slashes and no host": ("url('//' + x.s + ' ')", "not a URL"),
    "a fragment with a wrong escape": ("url('/#%' + x.s + '%')", "not a URL"),
    "an address compared with a text": ('dyn(ip("10.1.2.3")) == x.ip', "no such overload: ==(ip, string)"),
}


@pytest.mark.parametrize(("source", "want"), FAILURES.values(), ids=FAILURES)
def test_the_expression_fails_with_this_error(value: Callable[..., Any], source: str, want: str) -> None:
    kind, text = value(source, x=X)
    assert (kind, text.partition(": ")[2]) == ("RUNTIME", want)


def test_texts_of_values(value: Callable[..., Any]) -> None:
    found = value('[dyn(ip("0::1")), dyn(cidr("::/0")), dyn(url("HTTP://h/a b#c")), dyn(format.uuid())]')
    assert list(map(str, found)) == ["::1", "::/0", "http://h/a%20b#c", "uuid"]
