"""The end of the store's certificate, for those who watch that it is renewed in time."""

from __future__ import annotations

import logging
from pathlib import Path

from cryptography import x509

_log = logging.getLogger("quorate.store.monitor")


def end_of(path: str) -> float | None:
    """Return the time at which the certificate in a file ends, in seconds since 1970.

    None: the file cannot be read just now, for example because it is being replaced.
    """
    try:
        certificate = x509.load_pem_x509_certificate(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        _log.info("the end of the certificate in %s is not known: %s", path, error)
        return None
    return certificate.not_valid_after_utc.timestamp()
