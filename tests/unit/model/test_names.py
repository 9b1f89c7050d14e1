"""Names as the API server validates them: the texts were read from kube-apiserver 1.37."""

import pytest

from tollbar.model import names

KEY = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation "
    "is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)

QUALIFIED = {
    "a plain name": ("gpu", []),
    "a name with a domain": ("example.com/gpu", []),
    "capitals and underscores in the name": ("example.com/My_GPU.2", []),
    "the longest there is": ("a" * 253 + "/" + "b" * 63, []),
    "a name that is too long": ("a" * 64, ["name part must be no more than 63 bytes"]),
    "a domain that is too long": ("a" * 254 + "/b", ["prefix part must be no more than 253 bytes"]),
    "a slash at the end": ("example.com/", ["name part must be non-empty", f"name part {KEY}"]),
    "a slash at the start": ("/gpu", ["prefix part must be non-empty"]),
    "two slashes": (
        "a/b/c",
        [f"a valid label key {KEY} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"],
    ),
    "a blank": ("my gpu", [f"name part {KEY}"]),
    "a domain in capitals": ("Example.com/gpu", [f"prefix part {SUBDOMAIN}"]),
    "nothing": ("", ["name part must be non-empty", f"name part {KEY}"]),
    "a line end": ("gpu\n", [f"name part {KEY}"]),
    "letters that are not ASCII": ("größe", [f"name part {KEY}"]),
}


@pytest.mark.parametrize(("given", "want"), QUALIFIED.values(), ids=QUALIFIED)
def test_qualified_name(given: str, want: list[str]) -> None:
    assert names.qualified_name(given) == want


OTHERS = {
    "a label": (names.dns_label, "my-name", []),
    "a label with dots": (names.dns_label, "my.name", ["must not contain dots"]),
    "a label that ends with a dash": (names.dns_label, "my-", [LABEL]),
    "a label that is too long": (names.dns_label, "a" * 64, ["must be no more than 63 bytes"]),
    "a subdomain": (names.dns_subdomain, "gpu.example.com", []),
    "a subdomain with an empty part": (names.dns_subdomain, "gpu..example.com", [SUBDOMAIN]),
    "a subdomain that is too long": (names.dns_subdomain, "a" * 254, ["must be no more than 253 bytes"]),
    "an empty label value": (names.label_value, "", []),
    "a label value": (names.label_value, "My.Value_1", []),
    "a label value that ends with a dash": (names.label_value, "value-", [VALUE]),
    "a label value of 64 bytes in 32 characters": (
        names.label_value,
        "ä" * 32,
        ["must be no more than 63 bytes", VALUE],
    ),
    "a label value that is half of a character": (names.label_value, "\ud800", [VALUE]),
    "an identifier": (names.c_identifier, "_driverVersion2", []),
    "an identifier that starts with a digit": (
        names.c_identifier,
        "2nd",
        [
            (
                "a valid C identifier must start with alphabetic character or '_', followed by a string of "
                "alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for "
                "validation is '[A-Za-z_][A-Za-z0-9_]*')"
            )
        ],
    ),
}


@pytest.mark.parametrize(("check", "given", "want"), OTHERS.values(), ids=OTHERS)
def test_other_names(check: object, given: str, want: list[str]) -> None:
    assert callable(check)
    assert check(given) == want


GENERATED = {
    "as they are": ("web", "gpu", "web-gpu-"),
    "the longest that is not shortened": ("p" * 30, "c" * 25, f"{'p' * 30}-{'c' * 25}-"),
    "one more": ("p" * 30, "c" * 26, f"{'p' * 29}-{'c' * 25}"),
    "both very long": ("p" * 253, "c" * 63, f"{'p' * 45}-{'c' * 11}"),
    "a long Pod and the shortest claim": ("p" * 253, "c", f"{'p' * 56}-"),
    "the shortest Pod and a long claim keeps its one letter": ("a", "c" * 63, f"a-{'c' * 54}"),
    "a Pod's name is not cut after a dot": (f"{'x' * 22}.yyy", "d" * 35, f"{'x' * 22}-{'d' * 31}"),
    "nor after a dash": (f"{'x' * 22}-yyy", "d" * 35, f"{'x' * 22}-{'d' * 31}"),
}


@pytest.mark.parametrize(("owner", "reference", "want"), GENERATED.values(), ids=GENERATED)
def test_generate_name(owner: str, reference: str, want: str) -> None:
    assert names.generate_name(owner, reference) == want
