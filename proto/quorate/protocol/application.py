"""The application that a client is part of, as people recognise it in a listing.

For people: no rule uses it, and nothing in it is proved.
"""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.errors import InvalidArgument

TEXT_BYTES_MAX = 256
"""The most bytes of each text."""


@dataclass(frozen=True, slots=True)
class Application:
    """An application, by what it says of itself. Empty texts and 0: it says nothing."""

    name: str = ""
    """The name that the application gave its client."""
    program: str = ""
    """The name of the file that the process runs."""
    host: str = ""
    process_id: int = 0

    def checked(self) -> Application:
        """Return the application unchanged. Raises InvalidArgument if a text is not usable."""
        for what, text in (("name", self.name), ("program", self.program), ("host", self.host)):
            # Listings show it on terminals, which take control characters for commands.
            if not text.isprintable():
                raise InvalidArgument(what, "has control characters; use printable ones")
            if len(text.encode()) > TEXT_BYTES_MAX:
                raise InvalidArgument(what, f"is longer than {TEXT_BYTES_MAX} bytes; shorten it")
        return self

    def __bool__(self) -> bool:
        """Return whether it says anything."""
        return self != UNNAMED

    def __str__(self) -> str:
        """Return what people see: the name, else the program, and where it runs."""
        what = self.name or self.program
        where = f"{self.host}:{self.process_id}" if self.host else ""
        return f"{what} ({where})" if what and where else what or where


UNNAMED = Application()
"""The application of a client that says nothing of it."""
