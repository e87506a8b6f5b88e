from warmroute.adapters.store.memory import MemoryStore
from warmroute.controlplane.session_key import session_key


def test_the_secret_is_made_once_and_kept():
    store = MemoryStore()
    made = session_key(store)
    assert session_key(store) == made
    assert 40 <= len(made) <= 64


def test_every_store_has_a_secret_of_its_own():
    assert session_key(MemoryStore()) != session_key(MemoryStore())
