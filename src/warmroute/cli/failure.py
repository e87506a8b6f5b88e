"""What ends a command of the command line, and with which exit status."""

from typing import Final

import click

EXIT_REFUSED: Final = 1
"""The server said no, or what was asked for failed or did not come in time."""
EXIT_MISTAKE: Final = 2
"""Wrong usage or settings; for ``apply --dry-run``: there is something to change."""
EXIT_UNREACHABLE: Final = 3
"""Nobody answers where the server should be."""
EXIT_INTERRUPTED: Final = 130
"""Ctrl-C."""


class CommandFailed(click.ClickException):
    """A command ends here. The text is one sentence and says what to do.

    Attributes:
        status: Exit status.
    """

    def __init__(self, message: str, *, status: int = EXIT_REFUSED) -> None:
        """Say why.

        Args:
            message: For people.
            status: Exit status.
        """
        super().__init__(message)
        self.status = status


class Refused(CommandFailed):
    """The server refused a call.

    Attributes:
        code: Its error code, such as ``ValidationException``.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def is_missing(self) -> bool:
        """Whether what was named does not exist."""
        return self.message.startswith("Could not find ")

    @property
    def is_busy(self) -> bool:
        """Whether what was named is changing and takes no other change."""
        return "in-progress" in self.message or "_IN_PROGRESS" in self.message

    @property
    def is_unknown(self) -> bool:
        """Whether this server does not have the operation."""
        return self.code == "UnknownOperationException"
