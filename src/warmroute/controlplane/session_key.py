"""The secret with which routers sign the ids of sessions; made once, and kept in the store."""

import secrets
from typing import Final

from warmroute.controlplane.ports import Store

SESSION_KEY_NOTE: Final = "session_key"
_BYTES: Final = 32


def session_key(store: Store) -> str:
    """Return the secret: all routers must have the same, and ids must outlive a restart of control."""
    with store.transaction() as transaction:
        known = transaction.note(SESSION_KEY_NOTE)
        if known is None:
            known = secrets.token_urlsafe(_BYTES)
            transaction.set_note(SESSION_KEY_NOTE, known)
    return known
