"""The errors of expressions that do not compile: their messages and places."""

import pytest

from tollbar.cel import COMPILE, DEVICE_ENV, RULE_ENV, CelEngine, CelError

REFUSED = {
    "nothing": ("", "1:1: unexpected end of the expression"),
    "a comment alone": ("// nothing", "1:11: unexpected end of the expression"),
    "an operand missing": ("1 ==", "1:5: unexpected end of the expression"),
    "a bracket missing": ("(true", "1:6: unexpected end of the expression"),
    "a bracket too many": ("true)", "1:5: unexpected ')'"),
    "two operands": ("true false", "1:6: unexpected 'false'"),
    "an operator missing before a string": ('pod "a"', "1:5: unexpected string"),
    "a word that begins with in": ("1 inside", "1:3: unexpected 'inside'"),
    "a field that is a literal": ("pod.true", "1:5: unexpected 'true'"),
    "a field that is null": ("pod.null == 1", "1:5: unexpected 'null'"),
    "a macro's variable from the root": ("[1].exists(n, .n == 1)", "1:16: undefined variable 'n'"),
    "a bound variable from the root": ("cel.bind(n, 1, .n == 1)", "1:17: undefined variable 'n'"),
    "a variable of a macro with a dot": (
        "claims.all(.c, true)",
        "1:13: the first argument of all() must be a simple name",
    ),
    "a macro from the root": (".has(pod.spec)", "1:2: undefined function 'has'"),
    "a bind from the root": (".cel.bind(n, 1, n == 1)", "1:6: undefined method 'bind'; did you mean 'find'?"),
    "an unsigned number with a sign": ("-0u == 0u", "1:1: no such overload: -(uint)"),
    "two trailing commas": ("[1,,] == [1]", "1:4: unexpected ','"),
    "a single ampersand": ("true & true", "1:6: unexpected character '&'; did you mean '&&'?"),
    "the word and": ("true and true", "1:6: unexpected 'and'; did you mean '&&'?"),
    "a length": ("len(claims) == 1", "1:1: undefined function 'len'; did you mean 'size'?"),
    "a method before its variable": (
        'claims.exist(c, c.metadata.name == "x")',
        "1:8: undefined method 'exist'; did you mean 'exists'?",
    ),
    "a quantifier of another language": (
        "claims.any(c, c.spec == null)",
        "1:8: undefined method 'any'; did you mean 'exists'?",
    ),
    "the variable of policies": ("object.spec == null", "1:1: undefined variable 'object'; did you mean 'pod'?"),
    "an int among keys that are strings": ("1 in pod.metadata.labels", "1:1: no such overload: in(int, map)"),
    "a key of another type than those of a map": ('{1: true}["a"]', "1:10: no such overload: [](map, string)"),
    "a key of a macro's variable": (
        "pod.metadata.labels.exists(k, k == 1)",
        "1:31: no such overload: ==(string, int)",
    ),
    "maps with keys of several types": ("{1: 2} == {'a': 2}", "1:1: no such overload: ==(map, map)"),
    "a key of a transformed list": (
        "claims.transformMap(i, c, c.spec)['a'] == null",
        "1:34: no such overload: [](map, string)",
    ),
    "types of several types": (
        "type(1) in [int, list]",
        "1:18: a list must be of one type, not type<int> and type<list>; dyn() takes any",
    ),
    "an int key of labels": ('pod.metadata.labels[0] == "x"', "1:20: no such overload: [](map, int)"),
    "an int as uint that is none": ('uint("-7") == 7u', "1:1: type conversion error from 'string' to 'uint'"),
    "a trailing comma of a call": ("size([1],) == 1", "1:10: unexpected ')'"),
    "a trailing comma of an index": ("claims[0,] == null", "1:9: unexpected ','"),
    "a reserved word as a variable": ("claims.all(var, true)", "1:12: 'var' is a reserved word"),
    "an escaped name that is no field": ("`pod`.spec == null", "1:1: unexpected '`pod`'"),
    "an escaped name without end": ("pod.`spec == null", "1:5: unexpected character '`'"),
    "a double without digits after its point": ("1. == 1.0", "1:4: unexpected '=='"),
    "a hexadecimal number with a large X": ("0X1F == 31", "1:2: unexpected 'X1F'"),
    "a string as key of a field": ('pod."a"', "1:5: unexpected string"),
    "a character of no token": ("pod.spec # x", "1:10: unexpected character '#'"),
    "a character that does not print": ("pod\x00", "1:4: unexpected character '\\x00'"),
    "half a character": ("pod \ud800", "1:5: unexpected character '\\ud800'"),
    "half a character in a string": ('"\ud800" == ""', "1:2: string is not valid Unicode"),
    "a single equals sign": ("1 = 1", "1:3: unexpected character '='; did you mean '=='?"),
    "a place on another line": (
        "true &&\n  pod.spek == null",
        "2:7: undefined field 'spek' in Pod; did you mean 'spec'?",
    ),
    "an optional compared with its value": ("pod.?spec == 1", "1:1: no such overload: ==(optional_type, int)"),
    "a misspelt optional field": (
        "pod.?spek.hasValue()",
        "1:6: undefined field 'spek' in Pod; did you mean 'spec'?",
    ),
    "a misspelt field behind an optional one": (
        "pod.?spec.nodenam.hasValue()",
        "1:11: undefined field 'nodenam' in PodSpec; did you mean 'nodeName'?",
    ),
    "an optional as result": ("pod.?spec.hostNetwork", "1:11: must evaluate to bool but is optional_type<bool>"),
    "an optional entry of what is none": ("[?1] == [1]", "1:3: an entry with ? needs an optional, not int"),
    "an optional entry of a map of what is none": (
        '{?"a": 1} == {"a": 1}',
        "1:8: an entry with ? needs an optional, not int",
    ),
    "the value of what is no optional": ("pod.spec.hostNetwork.value()", "1:22: no such overload: value(bool)"),
    "another type for want of a value": (
        "pod.?spec.nodeName.orValue(1) == ''",
        "1:20: no such overload: orValue(optional_type, int)",
    ),
    "optMap of what is no optional": (
        "pod.spec.hostNetwork.optMap(h, h).hasValue()",
        "1:22: no such overload: hasValue(bool)",
    ),
    "optFlatMap to what is no optional": (
        "pod.?spec.optFlatMap(s, s.nodeName).hasValue()",
        "1:11: the branches of ?: have different types, string and optional_type<dyn>",
    ),
    "optMap of what is no name": (
        "pod.?spec.optMap(1, true).hasValue()",
        "1:18: the first argument of optMap() must be a simple name",
    ),
    "a message": ("Pod{name: 1}", "1:1: messages cannot be constructed"),
    "an empty message": ("pod{} == pod", "1:1: messages cannot be constructed"),
    "an open string": ('pod == "abc', "1:8: string is not terminated"),
    "a string that ends with its line": ('"abc\n" == ""', "1:1: string is not terminated"),
    "an escape that is none": (r'"a\q" == ""', "1:3: invalid escape"),
    "half an escape": (r'"\x4" == ""', "1:2: invalid escape"),
    "an escape beyond Unicode": (r'"\U00110000" == ""', "1:2: escape is not a Unicode character"),
    "an escape that is half a character": (r'"a\ud800" == ""', "1:3: escape is not a Unicode character"),
    "a Unicode escape in bytes": (r'b"\u00e9" == b""', "1:3: bytes have no Unicode escapes"),
    "an integer out of range": ("9223372036854775808 > 0", "1:1: integer is out of range"),
    "an unsigned integer out of range": ("18446744073709551616u > 0u", "1:1: integer is out of range"),
    "a double out of range": ("1e999 > 0.0", "1:1: double is out of range"),
    "an unknown variable": ("clams.size() == 1", "1:1: undefined variable 'clams'; did you mean 'claims'?"),
    "an unknown variable that resembles none": ("foo == 1", "1:1: undefined variable 'foo'"),
    "a variable after its macro": ("claims.all(c, true) && c == 1", "1:24: undefined variable 'c'"),
    "an unknown function": ("sise(claims) == 1", "1:1: undefined function 'sise'; did you mean 'size'?"),
    "an unknown method": (
        'pod.metadata.name.startWith("a")',
        "1:19: undefined method 'startWith'; did you mean 'startsWith'?",
    ),
    "a method called as function": ('startsWith("a", "b")', "1:1: 'startsWith' is a method, not a function"),
    "a function called as method": ('"1Gi".quantity() == 1', "1:7: 'quantity' is a function, not a method"),
    "too few arguments": ('"a".startsWith()', "1:5: startsWith() takes 1 argument, not 0"),
    "too many arguments": ('"a".substring(1, 2, 3) == ""', "1:5: substring() takes 1 or 2 arguments, not 3"),
    "a macro without expression": ("claims.exists(c)", "1:8: exists() takes a variable and an expression"),
    "a macro without arguments": ("claims.map() == []", "1:8: map() takes a variable and an expression"),
    "a macro with too much": ("claims.filter(c, true, true)", "1:8: filter() takes a variable and an expression"),
    "existsOne with one variable": (
        "claims.existsOne(c, true)",
        "1:8: existsOne() takes two variables and an expression",
    ),
    "a second variable that is none": (
        "claims.all(c, true, true)",
        "1:15: the second argument of all() must be a simple name",
    ),
    "two variables of one name": (
        "claims.all(c, c, true)",
        "1:15: the variables of all() must have different names",
    ),
    "a transformation without expression": (
        "claims.transformList(i, c).size() == 0",
        "1:8: transformList() takes two variables and an expression",
    ),
    "an entry that is no map": (
        "claims.transformMapEntry(i, c, i) == {}",
        "1:8: transformMapEntry() needs a map of one entry, not int",
    ),
    "a misspelt field of a second variable": (
        "claims.all(i, c, c.spek == null)",
        "1:20: undefined field 'spek' in ResourceClaim; did you mean 'spec'?",
    ),
    "an index used as an element": (
        "claims.all(i, c, i.spec == null)",
        "1:20: undefined field 'spec' in int",
    ),
    "sortBy of what is no name": (
        "claims.sortBy(1, 1) == []",
        "1:15: the first argument of sortBy() must be a simple name",
    ),
    "a macro whose variable is none": (
        "claims.all(c.spec, true)",
        "1:14: the first argument of all() must be a simple name",
    ),
    "bind without body": ("cel.bind(x, 1)", "1:5: cel.bind() takes a variable, its value and an expression"),
    "bind of what is no name": (
        "cel.bind(1, 1, true)",
        "1:10: the first argument of cel.bind() must be a simple name",
    ),
    "has of a variable": ("has(pod)", "1:1: has() takes one field selection, such as has(pod.spec.nodeName)"),
    "has of has": ("has(has(pod.spec))", "1:1: has() takes one field selection, such as has(pod.spec.nodeName)"),
    "has of two": ("has(pod.a, pod.b)", "1:1: has() takes one field selection, such as has(pod.spec.nodeName)"),
    "a misspelt field": ("pod.metdata.name == 'x'", "1:5: undefined field 'metdata' in Pod; did you mean 'metadata'?"),
    "a misspelt field in has": (
        "has(pod.spec.nodename)",
        "1:14: undefined field 'nodename' in PodSpec; did you mean 'nodeName'?",
    ),
    "the status of a claim, which not every process has": (
        "claims.exists(c, !has(c.status) || !has(c.status.allocation))",
        "1:25: undefined field 'status' in ResourceClaim; a rule sees its metadata and spec",
    ),
    "the kind of a claim": (
        "claims.all(c, c.kind == 'ResourceClaim')",
        "1:17: undefined field 'kind' in ResourceClaim; a rule sees its metadata and spec",
    ),
    "the kind of the Pod": (
        "pod.kind == 'Pod'",
        "1:5: undefined field 'kind' in Pod; a rule sees its metadata and spec and status",
    ),
    "the status of the namespace": (
        "true ||\n  namespaceObject.status.phase == 'Active'",
        "2:19: undefined field 'status' in Namespace; a rule sees its metadata",
    ),
    "who wrote a claim": (
        "claims.all(c, c.metadata.managedFields.size() == 0)",
        "1:26: undefined field 'managedFields' in ObjectMeta",
    ),
    "a list of null and a time": (
        "[null, timestamp(0)] == []",
        "1:8: a list must be of one type, not null_type and timestamp; dyn() takes any",
    ),
    "a map of a quantity and null": (
        "{'a': quantity('1'), 'b': null} == {}",
        "1:27: a map must be of one type, not quantity and null_type; dyn() takes any",
    ),
    "a field of a value that an optional may have": (
        "optional.of(1).optMap(v, 2).?name.hasValue()",
        "1:30: undefined field 'name' in int",
    ),
    "an element beside no elements": ("(claims == [] ? [] : [1])[0] == 'a'", "1:2: no such overload: ==(int, string)"),
    "a list indexed by an unsigned number": ("claims[0u] == null", "1:7: no such overload: [](list, uint)"),
    "a list indexed by a double": ("claims[0.0] == null", "1:7: no such overload: [](list, double)"),
    "a variable that is a keyword": ("claims.all(in, true)", "1:12: unexpected 'in'"),
    "a field that is a keyword": ("has(pod.in)", "1:9: unexpected 'in'"),
    "the accumulator of macros": ("claims.all(__result__, true)", "1:12: '__result__' is a reserved name"),
    "less than the least integer": ("- 9223372036854775809 < 0", "1:1: integer is out of range"),
    "a misspelt field by index": ('pod["spek"] == null', "1:4: undefined field 'spek' in Pod; did you mean 'spec'?"),
    "a misspelt field of an element": (
        "pod.spec.containers[0].imagee == 'x'",
        "1:24: undefined field 'imagee' in Container; did you mean 'image'?",
    ),
    "a misspelt field of a macro's variable": (
        "claims.exists(c, c.spec.device == null)",
        "1:25: undefined field 'device' in ResourceClaimSpec; did you mean 'devices'?",
    ),
    "a misspelt field behind filter and map": (
        "claims.filter(c, true).map(c, c.spec.devices).exists(d, d.request == null)",
        "1:59: undefined field 'request' in DeviceClaim; did you mean 'requests'?",
    ),
    "a misspelt field of a class": (
        'deviceClasses["gpu"].metadata.lables == null',
        "1:31: undefined field 'lables' in ObjectMeta; did you mean 'labels'?",
    ),
    "a misspelt field of a class by name": (
        "claims.all(c, deviceClasses[c.metadata.name].speck == null)",
        "1:46: undefined field 'speck' in DeviceClass; did you mean 'spec'?",
    ),
    "a misspelt field of a bound value": (
        "cel.bind(s, pod.spec, s.nodenam == '')",
        "1:25: undefined field 'nodenam' in PodSpec; did you mean 'nodeName'?",
    ),
    "a field of one branch and the other": (
        "(true ? pod.spec : pod.spec).nope == 1",
        "1:30: undefined field 'nope' in PodSpec",
    ),
    "the class name of v1beta1": (
        'claims.exists(c, c.spec.devices.requests.exists(r, r.deviceClassName == "x"))',
        "1:54: undefined field 'deviceClassName' in DeviceRequest; did you mean 'r.exactly.deviceClassName'?",
    ),
    "the class name of v1beta1 behind an index": (
        'claims[0].spec.devices.requests[0].deviceClassName == "x"',
        "1:36: undefined field 'deviceClassName' in DeviceRequest; did you mean 'exactly.deviceClassName'?",
    ),
    "a field of a list": (
        "claims.spec == null",
        "1:8: undefined field 'spec' in list; use exists(), all() or an index",
    ),
    "a field of a string": ("pod.metadata.name.nope == 1", "1:19: undefined field 'nope' in string"),
    "a list indexed by string": ('claims["a"] == null', "1:7: no such overload: [](list, string)"),
    "a macro over an object": ("pod.exists(k, true)", "1:5: exists() needs a list or a map, not Pod"),
    "a macro over a string": ("pod.metadata.name.all(c, true)", "1:19: all() needs a list or a map, not string"),
    "a predicate that is a string": (
        "pod.spec.containers.exists(c, c.name)",
        "1:33: exists() needs bool, not string",
    ),
    "a string in a conjunction": ("pod.metadata.name && true", "1:14: && needs bool, not string"),
    "an int in a disjunction": ("true || 1", "1:9: || needs bool, not int"),
    "a condition that is a list": ("claims ? true : false", "1:1: ?: needs bool, not list"),
    "operands of different kinds": ("pod.metadata.name == 1", "1:1: no such overload: ==(string, int)"),
    "order of different kinds": ("pod.spec.priority > '1'", "1:1: no such overload: >(int, string)"),
    "order of objects": ("pod.spec < pod.spec", "1:1: no such overload: <(map, map)"),
    "arithmetic of different kinds": ("1 + 1.0 == 2.0", "1:1: no such overload: +(int, double)"),
    "in an int": ("1 in 1", "1:1: no such overload: in(int, int)"),
    "a method of another kind": (
        "pod.spec.priority.startsWith('a')",
        "1:19: no such overload: startsWith(int, string)",
    ),
    "a literal pattern for an int": ("pod.spec.priority.matches('a')", "1:19: no such overload: matches(int, string)"),
    "quantities are not ordered by operators": (
        "quantity('1') < quantity('2')",
        "1:1: no such overload: <(quantity, quantity)",
    ),
    "a map key that is no key": ("{1.5: 1} == {}", "1:2: map keys are strings, integers or bools"),
    "a list of several types": (
        "[1, 'a'] == []",
        "1:5: a list must be of one type, not int and string; dyn() takes any",
    ),
    "a map of several types": (
        "{'a': 1, 'b': 'c'} == {}",
        "1:15: a map must be of one type, not int and string; dyn() takes any",
    ),
    "keys of several types": (
        "{'a': 1, 2: 3} == {}",
        "1:10: a map's keys must be of one type, not string and int; dyn() takes any",
    ),
    "an int equal to a double": ("1 == 1.0", "1:1: no such overload: ==(int, double)"),
    "an int unequal to an unsigned one": ("pod.spec.priority != 1u", "1:1: no such overload: !=(int, uint)"),
    "lists that can never be equal": ("[1] == ['a']", "1:1: no such overload: ==(list, list)"),
    "a list that can never hold it": ("pod.spec.priority in ['a']", "1:1: no such overload: in(int, list)"),
    "a string that may be null": (
        "pod.spec.nodeName == null",
        "1:1: no such overload: ==(string, null_type); use has() for what may be absent",
    ),
    "a conditional of different types": (
        "(pod.spec.hostNetwork ? 1 : 'a') == 1",
        "1:2: the branches of ?: have different types, int and string",
    ),
    "a literal that is no quantity": ("quantity('80GB').sign() == 1", "1:1: not a quantity"),
    "a literal that is no version": ("semver('1.0') == semver('1.0.0')", "1:1: not a semantic version"),
    "a literal that is no duration": ("duration('1 h') == duration('1h')", "1:1: not a duration"),
    "a literal that is no timestamp": ("timestamp('2024') == timestamp('2025')", "1:1: not an RFC 3339 timestamp"),
    "a literal that is no pattern": ("pod.metadata.name.matches('(')", "1:27: invalid regular expression"),
    "a literal pattern of a function": ("matches(pod.metadata.name, '[')", "1:28: invalid regular expression"),
    "a result that is a string literal": ('"x"', "1:1: must evaluate to bool but is string"),
    "a result that is a sum": ("1 + 1", "1:1: must evaluate to bool but is int"),
    "a result that is a size": ("size(claims)", "1:1: must evaluate to bool but is int"),
    "a result that is a field": ("pod.metadata.name", "1:14: must evaluate to bool but is string"),
    "a result that is an object": ("pod.spec", "1:5: must evaluate to bool but is PodSpec"),
    "a result that is a list": ("claims.filter(c, true)", "1:8: must evaluate to bool but is list<ResourceClaim>"),
    "a result that is null": ("null", "1:1: must evaluate to bool but is null_type"),
    "a result that is a quantity": ("quantity('1')", "1:1: must evaluate to bool but is quantity"),
}


@pytest.mark.parametrize(("source", "want"), REFUSED.values(), ids=REFUSED)
def test_the_expression_is_refused_with_this_error(cel: CelEngine, source: str, want: str) -> None:
    with pytest.raises(CelError) as caught:
        cel.compile(source, RULE_ENV)
    assert (caught.value.kind, str(caught.value)) == (COMPILE, want)


ACCEPTED = {
    "unknown shapes are no error": "claims.all(c, c.spec.devices.config.all(x, x.opaque.parameters.a.b[0].c > 1))",
    "labels and annotations have any key": 'pod.metadata.labels.x == "y" && pod.metadata.annotations["a.b/c"] == "d"',
    "a field of either API version": "has(pod.spec.schedulingGates) || has(pod.status.phase)",
    "quantities of a Pod are strings": 'quantity(pod.spec.containers[0].resources.limits["memory"]).isInteger()',
    "a quantity may be null": "quantity('1') == null || null == semver('1.0.0')",
    "an object may be null": "pod.spec == null || null != pod.metadata",
    "numbers of different types have an order": "pod.spec.priority > 1.5 || pod.spec.priority <= 1u",
    "a mixed list of dyn()": '[dyn(1), "a"].exists(e, e.startsWith("a"))',
    "a conditional of an object or null": "(pod.spec.hostNetwork ? pod.spec : null).nodeName == 'x'",
    "an optional field": 'pod.?spec.nodeName.orValue("") == "x"',
    "a field of an optional one": 'pod.?metadata.labels["app"].orValue("") == "x"',
    "an optional class": 'deviceClasses[?"gpu"].spec.hasValue()',
    "optMap and its type": 'pod.?metadata.optMap(m, m.name).orValue("") == "x"',
    "optFlatMap and its type": 'pod.?metadata.optFlatMap(m, m.?name).orValue("") == "x"',
    "the key of a map of literals": "{1: 'a'}.all(k, v, k == 1 && v == 'a')",
    "a variable may have the name of a type": "[1].exists(string, string == 1)",
    "a class by a computed name": "claims.all(c, deviceClasses[c.metadata.name].spec == null)",
    "a result that is not known": "claims[0].spec.devices.config[0].opaque.parameters.on",
    "the synthetic claim of extended resources": 'claims.exists(c, c.metadata.name == "<extended-resources>")',
}


@pytest.mark.parametrize("source", ACCEPTED.values(), ids=ACCEPTED)
def test_the_expression_is_accepted(cel: CelEngine, source: str) -> None:
    assert cel.compile(source, RULE_ENV).source == source


DEVICE_REFUSED = {
    "a variable of rules": ("pod == 1", "1:1: undefined variable 'pod'"),
    "a misspelt part of the device": (
        "device.attribute['a'].b == 1",
        "1:8: undefined field 'attribute' in Device; did you mean 'attributes'?",
    ),
    "a capacity compared with a string": (
        "device.capacity['d'].mem == '80Gi'",
        "1:1: no such overload: ==(quantity, string)",
    ),
    "the driver as result": ("device.driver", "1:8: must evaluate to bool but is string"),
}


@pytest.mark.parametrize(("source", "want"), DEVICE_REFUSED.values(), ids=DEVICE_REFUSED)
def test_the_device_selector_is_refused_with_this_error(cel: CelEngine, source: str, want: str) -> None:
    with pytest.raises(CelError) as caught:
        cel.compile(source, DEVICE_ENV)
    assert (caught.value.kind, str(caught.value)) == (COMPILE, want)
