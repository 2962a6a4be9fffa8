"""Certificates for the simulated server: an authority made at each start, and what it signs.

Apart, and our own, because neither the standard library nor what berth depends on makes certificates,
and a package for it would be the largest that this one needs. Only for servers on test networks: the
arithmetic takes no care against whoever can measure its time, and keys live no longer than the
process that made them. P-256 with SHA-256 as in SEC 1 and FIPS 186-5, X.509 as in RFC 5280.
"""

import base64
import hashlib
import ipaddress
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

# The curve P-256 (SEC 2, section 2.4.2).
_P: Final = 0xFFFFFFFF00000001000000000000000000000000FFFFFFFFFFFFFFFFFFFFFFFF
_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_BASE: Final = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)

_LIFETIME: Final = timedelta(days=365)
_CLOCK_SKEW: Final = timedelta(hours=1)

_Point = tuple[int, int] | None
"""None is the point at infinity."""


class KeyPair(NamedTuple):
    """A certificate and its private key, both as PEM."""

    certificate_pem: bytes
    key_pem: bytes


class Authority:
    """A certificate authority that lives as long as this object."""

    def __init__(self, now_s: float, name: str = "simulated-ca") -> None:
        """What it signs is good from an hour before `now_s` (wall clock) until a year after."""
        self._name = name
        self._now = datetime.fromtimestamp(now_s, UTC)
        self._key = _new_key()
        self.certificate_pem = _pem(
            "CERTIFICATE",
            self._certificate(name, (), self._key, is_authority=True, usage=()),
        )

    def server_pair(self, hosts: Sequence[str]) -> KeyPair:
        """For a server that is reached by these names and addresses."""
        return self._pair(hosts[0], (), hosts, _SERVER_AUTH)

    def client_pair(self, user: str, groups: Sequence[str] = ()) -> KeyPair:
        """For a client; the API server takes the common name for the user (x509 authentication)."""
        return self._pair(user, groups, (), _CLIENT_AUTH)

    def _pair(
        self, name: str, groups: Sequence[str], hosts: Sequence[str], usage: bytes
    ) -> KeyPair:
        key = _new_key()
        extensions = (usage, *_alternative_names(hosts))
        signed = self._certificate(name, groups, key, is_authority=False, usage=extensions)
        return KeyPair(_pem("CERTIFICATE", signed), _pem("EC PRIVATE KEY", _private_key(key)))

    def _certificate(
        self,
        name: str,
        groups: Sequence[str],
        key: int,
        *,
        is_authority: bool,
        usage: Sequence[bytes],
    ) -> bytes:
        # keyCertSign and cRLSign for the authority, digitalSignature for the others.
        key_usage = _bits(b"\x06", 1) if is_authority else _bits(b"\x80", 7)
        constraints = _sequence(_tagged(0x01, b"\xff")) if is_authority else _sequence()
        extensions = _sequence(
            _extension("2.5.29.19", constraints, is_critical=True),
            _extension("2.5.29.15", key_usage, is_critical=True),
            _extension("2.5.29.14", _octets(_key_id(key))),
            _extension("2.5.29.35", _sequence(_tagged(0x80, _key_id(self._key)))),
            *usage,
        )
        body = _sequence(
            _tagged(0xA0, _integer(2)),
            _integer(secrets.randbits(96)),
            _ECDSA_WITH_SHA256,
            _name(self._name),
            _sequence(_time(self._now - _CLOCK_SKEW), _time(self._now + _LIFETIME)),
            _name(name, groups),
            _sequence(_EC_KEY, _bits(_public_point(key))),
            _tagged(0xA3, extensions),
        )
        return _sequence(body, _ECDSA_WITH_SHA256, _bits(_sign(self._key, body)))


# The curve ----------------------------------------------------------------------------------------


def _add(one: _Point, other: _Point) -> _Point:
    if one is None or other is None:
        return one or other
    (x1, y1), (x2, y2) = one, other
    if x1 == x2:
        if (y1 + y2) % _P == 0:
            return None
        slope = (3 * x1 * x1 - 3) * pow(2 * y1, -1, _P) % _P
    else:
        slope = (y2 - y1) * pow(x2 - x1, -1, _P) % _P
    x3 = (slope * slope - x1 - x2) % _P
    return x3, (slope * (x1 - x3) - y1) % _P


def _times_base(factor: int) -> tuple[int, int]:
    total: _Point = None
    power: _Point = _BASE
    while factor:
        if factor & 1:
            total = _add(total, power)
        power = _add(power, power)
        factor >>= 1
    assert total is not None, "a factor below the order is never infinity"
    return total


def _new_key() -> int:
    return secrets.randbelow(_ORDER - 1) + 1


def _sign(key: int, message: bytes) -> bytes:
    digest = int.from_bytes(hashlib.sha256(message).digest())
    while True:
        nonce = _new_key()
        r = _times_base(nonce)[0] % _ORDER
        s = pow(nonce, -1, _ORDER) * (digest + r * key) % _ORDER
        if r and s:
            return _sequence(_integer(r), _integer(s))


# DER ----------------------------------------------------------------------------------------------


def _tagged(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes([tag, 0x80 | len(length)]) + length + content


def _sequence(*parts: bytes) -> bytes:
    return _tagged(0x30, *parts)


def _integer(value: int) -> bytes:
    # One bit more than the number has: without it the highest would be the sign.
    return _tagged(0x02, value.to_bytes(value.bit_length() // 8 + 1))


def _octets(content: bytes) -> bytes:
    return _tagged(0x04, content)


def _bits(content: bytes, unused_count: int = 0) -> bytes:
    return _tagged(0x03, bytes([unused_count]), content)


def _identifier(dotted: str) -> bytes:
    first, second, *rest = (int(part) for part in dotted.split("."))
    content = bytearray([first * 40 + second])
    for number in rest:
        digits = [number & 0x7F]
        while number := number >> 7:
            digits.append(0x80 | number & 0x7F)
        content += bytes(reversed(digits))
    return _tagged(0x06, bytes(content))


def _time(moment: datetime) -> bytes:
    return _tagged(0x17, moment.strftime("%y%m%d%H%M%SZ").encode())


_ECDSA_WITH_SHA256: Final = _sequence(_identifier("1.2.840.10045.4.3.2"))
_EC_KEY: Final = _sequence(_identifier("1.2.840.10045.2.1"), _identifier("1.2.840.10045.3.1.7"))


# Certificates -------------------------------------------------------------------------------------


def _name(common_name: str, groups: Sequence[str] = ()) -> bytes:
    pairs = [("2.5.4.10", group) for group in groups] + [("2.5.4.3", common_name)]
    return _sequence(
        *(
            _tagged(0x31, _sequence(_identifier(oid), _tagged(0x0C, text.encode())))
            for oid, text in pairs
        )
    )


def _public_point(key: int) -> bytes:
    x, y = _times_base(key)
    return b"\x04" + x.to_bytes(32) + y.to_bytes(32)


def _private_key(key: int) -> bytes:
    curve = _tagged(0xA0, _identifier("1.2.840.10045.3.1.7"))
    public = _tagged(0xA1, _bits(_public_point(key)))
    return _sequence(_integer(1), _octets(key.to_bytes(32)), curve, public)


def _key_id(key: int) -> bytes:
    return hashlib.sha256(_public_point(key)).digest()[:20]


def _extension(oid: str, value: bytes, *, is_critical: bool = False) -> bytes:
    critical = _tagged(0x01, b"\xff") if is_critical else b""
    return _sequence(_identifier(oid), critical, _octets(value))


_SERVER_AUTH: Final = _extension("2.5.29.37", _sequence(_identifier("1.3.6.1.5.5.7.3.1")))
_CLIENT_AUTH: Final = _extension("2.5.29.37", _sequence(_identifier("1.3.6.1.5.5.7.3.2")))


def _alternative_names(hosts: Sequence[str]) -> tuple[bytes, ...]:
    names = []
    for host in hosts:
        try:
            names.append(_tagged(0x87, ipaddress.ip_address(host).packed))
        except ValueError:
            names.append(_tagged(0x82, host.encode("ascii")))
    return (_extension("2.5.29.17", _sequence(*names)),) if names else ()


def _pem(label: str, content: bytes) -> bytes:
    text = base64.b64encode(content).decode()
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""]).encode()
