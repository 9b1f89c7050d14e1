"""The forms of random expressions, one per line, `result: text`, with its operands' types between ⟨ and ⟩.

⟨A⟩ and ⟨B⟩ stand for any one type each.  ⟨v of A⟩ declares a variable; it is in scope in the operands that follow.
The table follows Kubernetes' libraries, not ours, so that a function that is missing here is found.
"""

import re
from dataclasses import dataclass
from typing import Final

_TEXT: Final = r"""
A: (⟨bool⟩ ? ⟨A⟩ : ⟨A⟩)
A: ⟨list<A>⟩[⟨index⟩]
A: ⟨map<A>⟩[⟨key⟩]
A: cel.bind(⟨v of B⟩, ⟨B⟩, ⟨A⟩)
A: ⟨optional<A>⟩.orValue(⟨A⟩)
A: ⟨optional<A>⟩.value()
A: {"a": ⟨A⟩, "b": ⟨A⟩}.⟨name⟩
dyn: dyn(⟨A⟩)
bool: ⟨bool⟩ && ⟨bool⟩
bool: ⟨bool⟩ && ⟨bool⟩ && ⟨bool⟩
bool: ⟨bool⟩ || ⟨bool⟩
bool: ⟨bool⟩ || ⟨bool⟩ || ⟨bool⟩
bool: !⟨bool⟩
bool: ⟨A⟩ == ⟨A⟩
bool: ⟨A⟩ != ⟨A⟩
bool: ⟨dyn⟩ == ⟨dyn⟩
bool: ⟨dyn⟩ < ⟨dyn⟩
bool: ⟨dyn⟩ in ⟨dyn⟩
bool: ⟨int⟩ < ⟨int⟩
bool: ⟨int⟩ >= ⟨double⟩
bool: ⟨int⟩ > ⟨uint⟩
bool: ⟨uint⟩ <= ⟨uint⟩
bool: ⟨uint⟩ < ⟨double⟩
bool: ⟨double⟩ > ⟨double⟩
bool: ⟨double⟩ <= ⟨int⟩
bool: ⟨string⟩ < ⟨string⟩
bool: ⟨string⟩ >= ⟨string⟩
bool: ⟨bytes⟩ < ⟨bytes⟩
bool: ⟨bool⟩ > ⟨bool⟩
bool: ⟨timestamp⟩ < ⟨timestamp⟩
bool: ⟨duration⟩ >= ⟨duration⟩
bool: ⟨A⟩ in ⟨list<A>⟩
bool: ⟨key⟩ in ⟨map<A>⟩
bool: has(⟨map<A>⟩.⟨name⟩)
bool: has(⟨dyn⟩.⟨name⟩)
bool: has(object.⟨name⟩.⟨name⟩)
bool: ⟨list<A>⟩.exists(⟨v of A⟩, ⟨bool⟩)
bool: ⟨list<A>⟩.all(⟨v of A⟩, ⟨bool⟩)
bool: ⟨list<A>⟩.exists_one(⟨v of A⟩, ⟨bool⟩)
bool: ⟨map<A>⟩.exists(⟨k of string⟩, ⟨bool⟩)
bool: ⟨map<A>⟩.all(⟨k of string⟩, ⟨bool⟩)
bool: ⟨list<A>⟩.exists(⟨i of int⟩, ⟨v of A⟩, ⟨bool⟩)
bool: ⟨list<A>⟩.all(⟨i of int⟩, ⟨v of A⟩, ⟨bool⟩)
bool: ⟨map<A>⟩.exists(⟨k of string⟩, ⟨v of A⟩, ⟨bool⟩)
bool: ⟨map<A>⟩.existsOne(⟨k of string⟩, ⟨v of A⟩, ⟨bool⟩)
bool: ⟨string⟩.startsWith(⟨string⟩)
bool: ⟨string⟩.endsWith(⟨string⟩)
bool: ⟨string⟩.contains(⟨string⟩)
bool: ⟨string⟩.matches(⟨pattern⟩)
bool: matches(⟨string⟩, ⟨pattern⟩)
bool: bool(⟨truth⟩)
bool: isQuantity(⟨amount⟩)
bool: isSemver(⟨version⟩)
bool: isSemver(⟨version⟩, ⟨bool⟩)
bool: isURL(⟨link⟩)
bool: isIP(⟨address⟩)
bool: isCIDR(⟨network⟩)
bool: ip.isCanonical(⟨address⟩)
bool: ⟨quantity⟩.isGreaterThan(⟨quantity⟩)
bool: ⟨quantity⟩.isLessThan(⟨quantity⟩)
bool: ⟨quantity⟩.isInteger()
bool: ⟨semver⟩.isGreaterThan(⟨semver⟩)
bool: ⟨semver⟩.isLessThan(⟨semver⟩)
bool: ⟨ip⟩.isLoopback()
bool: ⟨ip⟩.isUnspecified()
bool: ⟨ip⟩.isGlobalUnicast()
bool: ⟨ip⟩.isLinkLocalUnicast()
bool: ⟨ip⟩.isLinkLocalMulticast()
bool: ⟨cidr⟩.containsIP(⟨ip⟩)
bool: ⟨cidr⟩.containsIP(⟨address⟩)
bool: ⟨cidr⟩.containsCIDR(⟨cidr⟩)
bool: ⟨cidr⟩.containsCIDR(⟨network⟩)
bool: sets.contains(⟨list<A>⟩, ⟨list<A>⟩)
bool: sets.equivalent(⟨list<A>⟩, ⟨list<A>⟩)
bool: sets.intersects(⟨list<A>⟩, ⟨list<A>⟩)
bool: ⟨list<ordered>⟩.isSorted()
bool: ⟨list<A>⟩.includes(⟨A⟩)
bool: ⟨optional<A>⟩.hasValue()
bool: ⟨format⟩.validate(⟨string⟩).hasValue()
bool: type(⟨A⟩) == ⟨type⟩
int: ⟨int⟩ + ⟨int⟩
int: ⟨int⟩ - ⟨int⟩
int: ⟨int⟩ * ⟨int⟩
int: ⟨int⟩ / ⟨int⟩
int: ⟨int⟩ % ⟨int⟩
int: -⟨int⟩
int: size(⟨string⟩)
int: ⟨bytes⟩.size()
int: size(⟨list<A>⟩)
int: ⟨map<A>⟩.size()
int: int(⟨uint⟩)
int: int(⟨double⟩)
int: int(⟨numeral⟩)
int: int(⟨timestamp⟩)
int: ⟨string⟩.indexOf(⟨string⟩)
int: ⟨string⟩.indexOf(⟨string⟩, ⟨index⟩)
int: ⟨string⟩.lastIndexOf(⟨string⟩)
int: ⟨string⟩.lastIndexOf(⟨string⟩, ⟨index⟩)
int: ⟨list<A>⟩.indexOf(⟨A⟩)
int: ⟨list<A>⟩.lastIndexOf(⟨A⟩)
int: ⟨list<int>⟩.sum()
int: ⟨list<int>⟩.min()
int: ⟨list<int>⟩.max()
int: ⟨timestamp⟩.getFullYear()
int: ⟨timestamp⟩.getMonth()
int: ⟨timestamp⟩.getDate()
int: ⟨timestamp⟩.getDayOfMonth()
int: ⟨timestamp⟩.getDayOfWeek()
int: ⟨timestamp⟩.getDayOfYear()
int: ⟨timestamp⟩.getHours()
int: ⟨timestamp⟩.getMinutes(⟨zone⟩)
int: ⟨timestamp⟩.getHours(⟨zone⟩)
int: ⟨timestamp⟩.getDayOfYear(⟨zone⟩)
int: ⟨timestamp⟩.getSeconds()
int: ⟨timestamp⟩.getMilliseconds()
int: ⟨duration⟩.getHours()
int: ⟨duration⟩.getMinutes()
int: ⟨duration⟩.getSeconds()
int: ⟨duration⟩.getMilliseconds()
int: ⟨quantity⟩.compareTo(⟨quantity⟩)
int: sign(⟨quantity⟩)
int: ⟨quantity⟩.asInteger()
int: ⟨semver⟩.compareTo(⟨semver⟩)
int: ⟨semver⟩.major()
int: ⟨semver⟩.minor()
int: ⟨semver⟩.patch()
int: ⟨ip⟩.family()
int: ⟨cidr⟩.prefixLength()
uint: ⟨uint⟩ + ⟨uint⟩
uint: ⟨uint⟩ - ⟨uint⟩
uint: ⟨uint⟩ * ⟨uint⟩
uint: ⟨uint⟩ / ⟨uint⟩
uint: ⟨uint⟩ % ⟨uint⟩
uint: uint(⟨int⟩)
uint: uint(⟨double⟩)
uint: uint(⟨numeral⟩)
uint: ⟨list<uint>⟩.sum()
double: ⟨double⟩ + ⟨double⟩
double: ⟨double⟩ - ⟨double⟩
double: ⟨double⟩ * ⟨double⟩
double: ⟨double⟩ / ⟨double⟩
double: -⟨double⟩
double: double(⟨int⟩)
double: double(⟨uint⟩)
double: double(⟨numeral⟩)
double: ⟨list<double>⟩.sum()
double: ⟨list<double>⟩.max()
double: ⟨quantity⟩.asApproximateFloat()
string: ⟨string⟩ + ⟨string⟩
string: string(⟨int⟩)
string: string(⟨uint⟩)
string: string(⟨double⟩)
string: string(⟨bool⟩)
string: string(⟨bytes⟩)
string: string(⟨timestamp⟩)
string: string(⟨duration⟩)
string: string(⟨ip⟩)
string: string(⟨cidr⟩)
string: ⟨string⟩.charAt(⟨index⟩)
string: ⟨string⟩.substring(⟨index⟩)
string: ⟨string⟩.substring(⟨index⟩, ⟨index⟩)
string: ⟨string⟩.replace(⟨string⟩, ⟨string⟩)
string: ⟨string⟩.replace(⟨string⟩, ⟨string⟩, ⟨index⟩)
string: ⟨string⟩.lowerAscii()
string: ⟨string⟩.upperAscii()
string: ⟨string⟩.trim()
string: strings.quote(⟨string⟩)
string: ⟨list<string>⟩.join()
string: ⟨list<string>⟩.join(⟨string⟩)
string: ⟨string⟩.find(⟨pattern⟩)
string: ⟨list<string>⟩.min()
string: ⟨url⟩.getScheme()
string: ⟨url⟩.getHost()
string: ⟨url⟩.getHostname()
string: ⟨url⟩.getPort()
string: ⟨url⟩.getEscapedPath()
string: "%s|%s".format([⟨A⟩, ⟨string⟩])
string: "%d %x".format([⟨int⟩, ⟨int⟩])
string: "%b %o %X".format([⟨int⟩, ⟨uint⟩, ⟨string⟩])
string: "%.2f %e %s".format([⟨double⟩, ⟨double⟩, ⟨list<A>⟩])
string: "%s %%".format([⟨map<A>⟩])
bytes: bytes(⟨string⟩)
bytes: ⟨bytes⟩ + ⟨bytes⟩
timestamp: timestamp(⟨moment⟩)
timestamp: timestamp(⟨seconds⟩)
timestamp: ⟨timestamp⟩ + ⟨duration⟩
timestamp: ⟨duration⟩ + ⟨timestamp⟩
timestamp: ⟨timestamp⟩ - ⟨duration⟩
duration: ⟨timestamp⟩ - ⟨timestamp⟩
duration: ⟨duration⟩ + ⟨duration⟩
duration: ⟨duration⟩ - ⟨duration⟩
duration: duration(⟨span⟩)
duration: ⟨list<duration>⟩.sum()
quantity: quantity(⟨amount⟩)
quantity: ⟨quantity⟩.add(⟨quantity⟩)
quantity: ⟨quantity⟩.add(⟨int⟩)
quantity: ⟨quantity⟩.sub(⟨quantity⟩)
quantity: ⟨quantity⟩.sub(⟨int⟩)
semver: semver(⟨version⟩)
semver: semver(⟨version⟩, ⟨bool⟩)
ip: ip(⟨address⟩)
ip: ⟨cidr⟩.ip()
cidr: cidr(⟨network⟩)
cidr: ⟨cidr⟩.masked()
url: url(⟨link⟩)
map<list<string>>: ⟨url⟩.getQuery()
type: type(⟨A⟩)
optional<A>: optional.of(⟨A⟩)
optional<A>: optional.ofNonZeroValue(⟨A⟩)
optional<A>: optional.none()
optional<A>: ⟨optional<A>⟩.or(⟨optional<A>⟩)
optional<A>: ⟨map<A>⟩[?⟨key⟩]
optional<A>: ⟨map<A>⟩.?⟨name⟩
optional<A>: ⟨list<A>⟩[?⟨index⟩]
optional<A>: ⟨optional<B>⟩.optMap(⟨v of B⟩, ⟨A⟩)
optional<A>: ⟨optional<B>⟩.optFlatMap(⟨v of B⟩, ⟨optional<A>⟩)
optional<A>: ⟨list<A>⟩.first()
optional<A>: ⟨list<A>⟩.last()
optional<dyn>: object.?⟨name⟩.⟨name⟩
optional<dyn>: ⟨dyn⟩.?⟨name⟩
optional<list<string>>: ⟨format⟩.validate(⟨string⟩)
list<A>: [⟨A⟩]
list<A>: [⟨A⟩, ⟨A⟩]
list<A>: [⟨A⟩, ⟨A⟩, ⟨A⟩]
list<A>: [?⟨optional<A>⟩, ⟨A⟩]
list<A>: ⟨list<A>⟩ + ⟨list<A>⟩
list<A>: ⟨list<A>⟩.filter(⟨v of A⟩, ⟨bool⟩)
list<A>: ⟨list<B>⟩.map(⟨v of B⟩, ⟨A⟩)
list<A>: ⟨list<B>⟩.map(⟨v of B⟩, ⟨bool⟩, ⟨A⟩)
list<A>: ⟨map<B>⟩.map(⟨k of string⟩, ⟨A⟩)
list<A>: ⟨list<B>⟩.transformList(⟨i of int⟩, ⟨v of B⟩, ⟨A⟩)
list<A>: ⟨list<B>⟩.transformList(⟨i of int⟩, ⟨v of B⟩, ⟨bool⟩, ⟨A⟩)
list<A>: ⟨list<A>⟩.slice(⟨index⟩, ⟨index⟩)
list<A>: [⟨list<A>⟩, ⟨list<A>⟩].flatten()
list<A>: ⟨list<A>⟩.distinct()
list<A>: ⟨list<A>⟩.reverse()
list<A>: optional.unwrap([⟨optional<A>⟩, ⟨optional<A>⟩])
list<A>: [⟨optional<A>⟩].unwrapOpt()
list<A>: ⟨list<A>⟩.sortBy(⟨v of A⟩, ⟨int⟩)
list<A>: ⟨list<A>⟩.sortBy(⟨v of A⟩, ⟨string⟩)
list<ordered>: ⟨list<ordered>⟩.sort()
list<int>: lists.range(⟨small⟩)
list<string>: ⟨string⟩.split(⟨string⟩)
list<string>: ⟨string⟩.split(⟨string⟩, ⟨int⟩)
list<string>: ⟨string⟩.findAll(⟨pattern⟩)
list<string>: ⟨string⟩.findAll(⟨pattern⟩, ⟨int⟩)
list<string>: ⟨map<A>⟩.filter(⟨k of string⟩, ⟨bool⟩)
map<A>: {⟨string⟩: ⟨A⟩}
map<A>: {⟨string⟩: ⟨A⟩, ⟨string⟩: ⟨A⟩}
map<A>: {?⟨string⟩: ⟨optional<A>⟩}
map<A>: ⟨map<B>⟩.transformMap(⟨k of string⟩, ⟨v of B⟩, ⟨A⟩)
map<A>: ⟨map<B>⟩.transformMap(⟨k of string⟩, ⟨v of B⟩, ⟨bool⟩, ⟨A⟩)
map<A>: ⟨list<B>⟩.transformMapEntry(⟨i of int⟩, ⟨v of B⟩, {string(⟨int⟩): ⟨A⟩})
"""

_HOLE: Final = re.compile(r"⟨([^⟩]*)⟩")


@dataclass(frozen=True, slots=True)
class Form:
    result: str
    pieces: tuple[str, ...]
    """Text and operands alternate: pieces[1], pieces[3], ... are types or `variable of type`."""


FORMS: Final = tuple(
    Form(result, tuple(_HOLE.split(text)))
    for result, _, text in (line.partition(": ") for line in _TEXT.strip().splitlines())
)

LITERALS: Final[dict[str, tuple[str, ...]]] = {
    "bool": ("true", "false"),
    "int": ("0", "1", "2", "3", "-1", "-2", "7", "60", "0x1F", "9223372036854775807", "-9223372036854775808"),
    "small": ("0", "1", "2", "3", "5", "-1"),
    "uint": ("0u", "1u", "2u", "3u", "7u", "0x1Fu", "18446744073709551615u", "9223372036854775808u"),
    "double": ("0.0", "1.0", "1.5", "-2.5", ".5", "1e3", "1e308", "-0.0", "2.0", "9223372036854775808.0", "1e-7"),
    "string": (
        '""', '"a"', '"b"', '"ab"', "'A'", '"é😀"', r'"a\nb"', r'r"\d"', "'''x\"y'''", '" a\t"', '"12"', '"-7"',
        '"1.5"', '"true"', '"1h30m"', '"-1.5s"', '"2024-02-29T12:34:56.789Z"', '"2023-01-01T00:00:00+05:30"',
        '"1Gi"', '"100m"', '"1.2.3"', '"v1.2"', '"1.0.0-rc.1"', '"10.0.0.1"', '"::1"', '"10.0.0.0/8"', '"fe80::/10"',
        '"https://user@example.com:80/a%20b?x=1&y=2"', '"/a/b"', '"a,b,,c"', '"web-1"', r'"\u00e9\x41\101"', '"%d"',
    ),
    "pattern": (
        '"a"', '"^a"', '"[0-9]+"', r'r"\w+"', '"(a|b)*"', '"^$"', '"."', '"[^,]+"', r'r"(\d+)-?"', '"(?i)A"', '""',
        '"é"',
    ),
    "bytes": ('b""', 'b"a"', 'b"ab"', r'b"\xff"', 'b"é"', r'br"\x"'),
    "timestamp": (
        'timestamp("2024-02-29T12:34:56.789Z")', 'timestamp("1970-01-01T00:00:00Z")', "timestamp(1700000000)",
        'timestamp("0001-01-01T00:00:00Z")', 'timestamp("9999-12-31T23:59:59.999999999Z")',
        'timestamp("2023-06-30T23:30:00-07:00")', 'timestamp("1969-12-31T23:59:59.5Z")',
    ),
    "duration": (
        'duration("0s")', 'duration("1h30m")', 'duration("-1.5s")', 'duration("1ms")', 'duration("90061s")',
        'duration("1ns")', 'duration("2540400h")',
    ),
    "zone": ('"UTC"', '"+05:30"', '"-08:00"', '"America/New_York"', '"Asia/Kolkata"', '"Nowhere/Land"', '"02:00"'),
    "quantity": (
        'quantity("1Gi")', 'quantity("0")', 'quantity("-1")', 'quantity("100m")', 'quantity("1.5k")',
        'quantity("9223372036854775807")', 'quantity("1e3")',
    ),
    "semver": ('semver("1.2.3")', 'semver("0.0.0")', 'semver("1.0.0-rc.1")', 'semver("1.0.0-rc.2+b")'),
    "ip": ('ip("10.0.0.1")', 'ip("::1")', 'ip("0.0.0.0")', 'ip("fe80::1")', 'ip("ff02::1")', 'ip("127.0.0.1")'),
    "cidr": ('cidr("10.0.0.0/8")', 'cidr("10.1.2.3/16")', 'cidr("::1/128")', 'cidr("fe80::/10")'),
    "url": ('url("https://user@example.com:80/a%20b?x=1&x=2&y=")', 'url("/a/b")', 'url("http://[::1]:8080/")'),
    "format": (
        "format.dns1123Label()", "format.dns1123Subdomain()", "format.dns1035Label()", "format.qualifiedName()",
        "format.labelValue()", "format.uri()", "format.uuid()", "format.byte()", "format.date()", "format.datetime()",
        "format.dns1123LabelPrefix()", 'format.named("uuid").value()',
    ),
    "type": ("int", "uint", "double", "string", "bool", "bytes", "list", "map", "type", "null_type"),
    "null": ("null",),
    "index": ("0", "0", "0", "1", "1", "2", "3", "-1"),
    "key": ('"a"', '"a"', '"b"', '"c"', '"name"', '"nope"'),
    "truth": ('"true"', '"false"', '"t"', '"F"', '"True"', '"TRUE"', '"1"', '"0"', '"yes"', '"tRUE"'),
    "numeral": (
        '"0"', '"12"', '"-7"', '"1.5"', '"1e3"', '"+5"', '" 1"', '"1_0"', '"9223372036854775807"', '"0x10"', '"-0"',
        '"9223372036854775808"', '"NaN"', '"Infinity"', '"-inf"', '"1e400"', '"007"', '"1."', '".5"', '"5e-324"',
    ),
    "moment": (
        '"2024-02-29T12:34:56.789Z"', '"2023-01-01T00:00:00+05:30"', '"2023-02-29T00:00:00Z"',
        '"1969-12-31T23:59:59.1Z"',
        '"2024-01-01T00:00:00z"', '"2024-01-01 00:00:00Z"', '"2024-01-01T24:00:00Z"', '"2024-01-01T00:00:60Z"',
        '"0000-01-01T00:00:00Z"', '"9999-12-31T23:59:59.9999999999Z"', '"2024-01-01T00:00:00,5Z"', '"2024-01-01"',
        '"2024-01-01T00:00:00.123456789+14:00"', '"2024-01-01T00:00:00+24:00"', '"10000-01-01T00:00:00Z"',
    ),
    "seconds": ("0", "1700000000", "-62135596800", "-62135596801", "253402300799", "253402300800", "-1", "i"),
    "span": (
        '"1h30m"', '"-1.5s"', '"0"', '"1d"', '"1.000000001s"', '"100us"', '"1µs"', '".5h"', '"+1m"', '"1h-1m"', '""',
        '"2562047h47m16.854775807s"', '"2562047h47m16.854775808s"', '"1ns"', '"0.1ns"', '"1 s"', '"1.s"', '"-"',
    ),
    "amount": (
        '"1Gi"', '"100m"', '"1.5k"', '"-2"', '"0"', '"1e3"', '"1E3"', '"1E"', '"1n"', '"1.5Ki"', '"Ki"',
        '"1 Gi"', '"+1"',
        '"9223372036854775807"', '"9223372036854775808"', '"1e19"', '"0.5"', '"12345678901234567890Ei"',
        '"1.0001"', '""',
    ),
    "version": (
        '"1.2.3"', '"1.0.0-rc.1"', '"1.0.0+build"', '"v1.2.3"', '"1.2"', '"1"', '"01.2.3"', '"1.2.3-01"', '"1.2.3-"',
        '"1.2.3-alpha.beta.1"', '"18446744073709551615.0.0"', '""', '"1.2.3.4"', '"v01.2"', '"1.2.3-a..b"',
    ),
    "address": (
        '"10.0.0.1"', '"::1"', '"fe80::1%eth0"', '"::ffff:1.2.3.4"', '"010.0.0.1"', '"1.2.3"', '"::"', '"2001:DB8::1"',
        '"255.255.255.255"', '"169.254.1.1"', '"224.0.0.1"', '"ff02::1"', '""', '"2001:db8:0:0:0:0:0:1"', '"1.2.3.4 "',
    ),
    "network": (
        '"10.0.0.0/8"', '"10.1.2.3/16"', '"::1/128"', '"fe80::/10"', '"0.0.0.0/0"', '"10.0.0.0/33"', '"10.0.0.0"',
        '"::ffff:1.2.3.4/112"', '"10.0.0.0/08"', '"fe80::%eth0/64"', '"2001:db8::/32"', '"10.0.0.0/-1"', '"1.2.3.4/32"',
    ),
    "link": (
        '"https://user@example.com:80/a%20b?x=1&y=2"', '"/a/b"', '"example.com"', '"http://[::1]:8080/"',
        '"../a"', '""', '"mailto:a@b.c"', '"http://a b/"', '"https://h/?a=1&a=2&b"', '"https://h/%zz"',
        '"HTTP://Host/#frag"', '"a:b"',
        '"https://h:port/"', '"https://h/é?q=é"', '"//host/p"', '"https://h/?a=%41;b=2"', '"http://u:p@h/%2F/"',
    ),
    "name": ("a", "b", "c", "name", "labels", "nope"),
}  # fmt: skip
"""The terms of each type, the simplest first."""
