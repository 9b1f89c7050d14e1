"""Keys of objects."""

from tollbar.model.objects import Key, key_of


def test_caches_that_keep_an_object_when_it_comes_keep_one_key() -> None:
    given = {"metadata": {"name": "web", "namespace": "ml"}, "spec": {}}
    first, of_a_part = key_of(given), key_of({"metadata": dict(given["metadata"])})
    other = key_of({"metadata": {"name": "web", "namespace": "team"}})
    assert of_a_part is first == Key("ml", "web")
    assert other == Key("team", "web")
    assert key_of({}) == Key("", "")


def test_what_only_a_file_can_have_is_no_error() -> None:
    assert key_of({"metadata": {"name": 7, "namespace": 5}}) == (5, 7)
