from warmroute.cli.apply.documents import HIDDEN, Difference, differences, fingerprint, is_secret


def test_equal_content_has_an_equal_fingerprint():
    assert fingerprint({"a": 1, "b": [2]}) == fingerprint({"b": [2], "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})
    assert fingerprint({"a": 1}, 2) != fingerprint({"a": 1})
    assert len(fingerprint()) == 8


def test_differences_name_entries_of_lists_by_their_names():
    before = {"V": [{"VariantName": "a", "N": 1}, {"VariantName": "b", "N": 1}], "L": [1, 2]}
    after = {"V": [{"VariantName": "b", "N": 2}, {"VariantName": "a", "N": 1.0}], "L": [1, 3]}
    assert differences(before, after) == (
        Difference("V[b].N", "1", "2"),
        Difference("L", "[1, 2]", "[1, 3]"),
    )


def test_entries_without_names_are_counted():
    assert differences({"V": [{"N": 1}]}, {"V": [{"N": 1}, {"N": 2}]}) == (Difference("V[1].N", None, "2"),)
    twice = [{"Name": "a", "N": 1}, {"Name": "a", "N": 2}]
    assert [one.path for one in differences({}, {"V": twice})] == [
        "V[0].Name",
        "V[0].N",
        "V[1].Name",
        "V[1].N",
    ]


def test_what_a_server_fills_in_is_no_difference_where_nothing_is_said():
    defaults = {"Flag": False, "W": 1.0}
    assert differences({"Flag": False, "V": {"W": 1}}, {}, defaults=defaults) == ()
    assert differences({"Flag": True}, {}, defaults=defaults) == (Difference("Flag", "true", None),)
    assert differences({"Flag": False}, {"Flag": True}, defaults=defaults) == (
        Difference("Flag", "false", "true"),
    )


def test_values_are_short_and_secrets_are_hidden():
    environment = {"Environment": {"HF_TOKEN": "x", "THREADS": "4"}}
    assert differences({}, environment) == (
        Difference("Environment.HF_TOKEN", None, HIDDEN),
        Difference("Environment.THREADS", None, "4"),
    )
    (one,) = differences({}, {"a": "x" * 200})
    assert len(one.after) == 81
    assert differences({}, {"w": 2.0, "x": 2.5, "s": None}) == (
        Difference("w", None, "2"),
        Difference("x", None, "2.5"),
        Difference("s", None, "null"),
    )


def test_names_of_secrets():
    assert all(map(is_secret, ("HF_TOKEN", "DB_PASSWORD", "OPENAI_API_KEY", "AWS_SECRET", "KEY", "X_APIKEY")))
    assert not any(map(is_secret, ("MODEL", "KEYBOARD", "MONKEY", "MAX_TOKENS", "TOKENIZER")))
