"""The keys of one channel, and records sealed and opened with them (docs/protocol.md, sections 4 and 6). It must not know
what a record means."""
import hmac

from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

INTEGRITY, PRIVATE = 1, 2
SUITES = {1: AESGCM, 2: ChaCha20Poly1305}


def expand(key, info, length):
    return hmac.digest(key, info + b"\x01", "sha256")[:length]


class Keys:
    """The keys of one channel (section 4)."""

    def __init__(self, join_secret, grant, session, channel, suite=1):
        prk, self.cipher = hmac.digest(grant, join_secret, "sha256"), SUITES[suite]
        context = session + channel.to_bytes(2, "big")
        self.join = expand(prk, b"xdfs join" + context + b"\0", 32)
        self.key = [expand(prk, b"xdfs key" + context + bytes([d, suite]), 32) for d in (0, 1)]
        self.iv = [expand(prk, b"xdfs iv" + context + bytes([d, suite]), 12) for d in (0, 1)]

    def seal(self, direction, sequence, level, head, payload):
        """What is sent for the payload, and the tag (section 6)."""
        plain, data = (payload, head) if level == PRIVATE else (b"", head + (payload if level == INTEGRITY else b""))
        both = self.cipher(self.key[direction]).encrypt(nonce(self.iv[direction], sequence), plain, data)
        return (both[:-16] if level == PRIVATE else payload), both[-16:]

    def open(self, direction, sequence, level, head, payload, tag):
        sealed, data = (payload, head) if level == PRIVATE else (b"", head + (payload if level == INTEGRITY else b""))
        plain = self.cipher(self.key[direction]).decrypt(nonce(self.iv[direction], sequence), sealed + tag, data)
        return plain if level == PRIVATE else payload

    def follow(self, direction):
        """The keys of the next epoch."""
        key = self.key[direction]
        self.key[direction], self.iv[direction] = expand(key, b"xdfs rekey key", 32), expand(key, b"xdfs rekey iv", 12)


def nonce(iv, sequence):
    return iv[:4] + (int.from_bytes(iv[4:], "big") ^ sequence).to_bytes(8, "big")
