"""Whose certificates are believed: as kube-scheduler believes them, whatever Python runs this.

Go takes each certificate that it is told to trust for an anchor, also one that somebody else signed,
and does not ask an authority for the key usage and key identifiers that RFC 5280 wants
(`Certificate.Verify` in crypto/x509/verify.go). Python up to 3.12 wants chains that end in a certificate
signed by itself; from 3.13 on it refuses authorities that lack the others, as those of many clusters do.
"""

import ssl


def trusting_context(
    purpose: ssl.Purpose = ssl.Purpose.SERVER_AUTH, *, ca_file: str = "", ca_text: str = ""
) -> ssl.SSLContext:
    """Trusts these authorities (PEM), or where none are given and servers are to be verified, the
    system's. OSError (ssl.SSLError is one) or ValueError if they cannot be used."""
    context = ssl.create_default_context(purpose, cafile=ca_file or None, cadata=ca_text or None)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
