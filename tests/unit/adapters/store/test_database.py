import sys

import pytest

from warmroute.adapters.store.database import shown
from warmroute.adapters.store.sql import open_store
from warmroute.core.errors import ConfigurationError


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("postgresql://u:hunter2@db/w", "postgresql://u:***@db/w"),
        ("postgresql://u@db:6432/w?password=hunter2&sslmode=require", "postgresql://u@db:6432/w"),
        ("postgresql+psycopg://u:p@hunter2@db/w", "postgresql+psycopg://u:***@db/w"),
        ("postgresql://u:x@db:hunter2/@h/w?password=hunter2", "postgresql://u:***@h/w"),
        ("postgresql://:hunter2@/w?host=/run", "postgresql://:***@/w"),
        ("postgresql:///w?host=/run", "postgresql:///w"),
        ("postgresql://u:hunter2@db:port/w", "postgresql://u:***@db:port/w"),
        ("nonsense", "nonsense"),
        ("sqlite:////data/x.db", "sqlite:////data/x.db"),
    ],
)
def test_a_url_is_shown_without_its_password(url, text):
    assert shown(url) == text


def test_a_url_that_is_none_is_refused_without_repeating_what_may_be_a_password(tmp_path):
    with pytest.raises(ConfigurationError) as refusal:
        open_store("postgresql://u:hunter2@db:port/w", tmp_path)
    assert "percent-encoded" in str(refusal.value)
    assert "hunter2" not in str(refusal.value)


def test_without_the_driver_the_refusal_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'warmroute\[postgres\]'"):
        open_store("postgresql://u@db/w", tmp_path)
