#!/usr/bin/env python3
"""A minimal xdfs client, written from docs/protocol.md and vectors/ alone, in less than 400 lines.

    minimal.py get HOST:PORT EXPORT/path FILE       download    [--channels N] [--level clear|integrity|private]
    minimal.py put HOST:PORT EXPORT/path FILE       upload      [--pin SHA256:...] [--user NAME --key FILE]

A test and an example, not a tool: one operation, no resume, and a lost channel ends the transfer. The words in brackets
are the rules of docs/protocol.md. Needs python3, `cryptography`, and `pyOpenSSL`: Python's own `ssl` has no exporter.
"""
import argparse
import base64
import contextlib
import hashlib
import hmac
import io
import os
import re
import select
import socket
import sys

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key
from OpenSSL import SSL

CONM, UPLOAD, DOWNLOAD, PATHS, FILES, EOFR, EOFT, NOOP, ZXDFS, EXCEPTION, REKEY = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 26
ACK, GRANT, CREDIT, FENCE, FINISH, COMMITTED, DRAIN = 16, 17, 18, 20, 22, 23, 25
HELLO, OPEN, ACCEPT, REFUSE, REQUEST, ASK = 1, 2, 3, 4, 1, 2
LEVELS, INTEGRITY, PRIVATE = ["clear", "integrity", "private"], 1, 2
CONTROL_MAX, BLOCK_MAX, WINDOW = 65536, 4 << 20, 256 << 20
SUITES = {1: AESGCM, 2: ChaCha20Poly1305}

# ---- messages
# A message is a list of name:form. Forms: uN (bits), int, rawN, bytesMAX, time, ranges, options. A mark behind a form
# says when it is there: `?N` where bit N of `flags` is set, `!name` where that field is not 0, `^name` where it is 0.
FIELD = re.compile(r"(\S+):([a-z]+)(\d*)(?:([?!^])(\S+))?")
ERROR = "code:int retry:u8 errno:int message:bytes1024"
WISH = ("flags:int name:bytes4096 label:bytes4096 transfer:raw16 offset:int length:int?2 level:u8 block:int"
        " credit:int mode:int modified:time?8 source:bytes64?32 kept:ranges?32 base:bytes64?1024")
FORMS = {
    "preface.client": "service:u8 magic:raw4 version_min:u8 version_max:u8 start:u8",
    "preface.server": "status:u8 magic:raw4 version:u8 zero:u8 start:u8",
    "head": "event:u8 level:u8 epoch:u16 operation:u32 sequence:u64 offset:u64 length:u32 flags:u16 zero:u16",
    f"handshake {HELLO}": "prefaces:raw16 logins:int salts:raw16",
    "login 1": "user:bytes128 key:raw32 signature:raw64",
    f"handshake {OPEN}": "prefaces:raw16 features:int channels:int pipelines:int window:int block:int level:u8"
                         " stall_ms:int label:raw16 suites:bytes16 login:int credentials:bytes16384 options:options"
                         " first.event:u8 first.request:bytes65536!first.event",
    f"handshake {ACCEPT}": "prefaces:raw16 session:raw16 features:int channels:int pipelines:int window:int block:int"
                           " floor:u8 initial_credit:int stall_ms:int suite:u8 grant.first:int grant.count:int"
                           " grant.secret:raw32 grant.life_ms:int proof:bytes16384 options:options",
    f"handshake {REFUSE}": ERROR, f"request {UPLOAD}": WISH, f"request {DOWNLOAD}": WISH, f"control {EXCEPTION}": ERROR,
    f"control {ACK}": "safety:u8 low:int edge:int ranges:ranges round:int",
    f"control {GRANT}": "flags:int level:u8 block:int edge:int length:int?1 size:int?2 ranges:ranges mode:int"
                        " modified:time?4 version:bytes64 kept:ranges?8 sum:raw32?128",
    f"control {CREDIT}": "edge:int", f"control {FENCE}": "channel:int processed:int",
    f"control {FINISH}": "length:int round:int root:bytes32 subtrees:options",
    f"control {COMMITTED}": "length:int safety:u8 version:bytes64 root:bytes32",
    f"control {EOFR}": "blocks:int", f"control {EOFT}": "records:int", f"control {DRAIN}": "retry_after_ms:int",
    f"control {NOOP}": "", f"control {REKEY}": "",
}

class Failed(Exception):
    """The server broke a rule, or gave a reason why it cannot."""

class Reader(io.BytesIO):
    def raw(self, count):
        if len(data := self.read(count)) < count:
            raise Failed("message ends inside a field")
        return data
    def int(self):
        first = self.raw(1)[0]
        return int.from_bytes(bytes([first & 0x3F]) + self.raw((1 << (first >> 6)) - 1), "big")

def write_int(value):
    mark = next(mark for mark in range(4) if value < 1 << (8 * (1 << mark) - 2))
    return (value | mark << (8 * (1 << mark) - 2)).to_bytes(1 << mark, "big")

def write_bytes(value):
    return write_int(len(value)) + value

def write_list(items, second):
    return write_int(len(items or [])) + b"".join(write_int(one) + second(two) for one, two in items or [])

CODEC = {  # how a form is read, and how it is written
    "u": (lambda reader, size: int.from_bytes(reader.raw(size // 8), "big"),
          lambda value, size: (value or 0).to_bytes(size // 8, "big")),
    "raw": (lambda reader, size: reader.raw(size), lambda value, size: value or bytes(size)),
    "bytes": (lambda reader, _: reader.raw(reader.int()), lambda value, _: write_bytes(value or b"")),
    "int": (lambda reader, _: reader.int(), lambda value, _: write_int(value or 0)),
    "time": (lambda reader, _: (lambda zigzag: (zigzag >> 1 ^ -(zigzag & 1), reader.int()))(reader.int()),
             lambda value, _: write_int(value[0] * 2 if value[0] >= 0 else -value[0] * 2 - 1) + write_int(value[1])),
    "ranges": (lambda reader, _: [(reader.int(), reader.int()) for _ in range(reader.int())],
               lambda value, _: write_list(value, write_int)),
    "options": (lambda reader, _: [(reader.int(), reader.raw(reader.int())) for _ in range(reader.int())],
                lambda value, _: write_list(value, write_bytes)),
}

def walk(kind, fields):
    for name, form, size, mark, other in FIELD.findall(FORMS[kind]):
        given = fields.get("flags", fields.get("told", 0)) & int(other) if mark == "?" else fields.get(other)
        if not mark or bool(given) != (mark == "^"):
            yield name, form, int(size or 0)

def decode(kind, data):
    """The fields of a message, by the names that the vectors use."""
    reader, fields = Reader(data), {}
    for name, form, size in walk(kind, fields):
        fields[name] = CODEC[form][0](reader, size)
    if reader.read():
        raise Failed("bytes behind the last field")
    return fields

def encode(kind, fields):
    """The bytes of a message; fields that are not given are zero or empty."""
    return b"".join(CODEC[form][1](fields.get(name), size) for name, form, size in walk(kind, fields))

# ---- keys and records (sections 4 and 6)
def expand(key, info, length):
    return hmac.digest(key, info + b"\x01", "sha256")[:length]

class Keys:
    """The keys of one channel; direction 0 is from the client."""
    def __init__(self, join_secret, grant, session, channel, suite=1):
        prk, self.cipher = hmac.digest(grant, join_secret, "sha256"), SUITES[suite]
        context = session + channel.to_bytes(2, "big")
        self.join = expand(prk, b"xdfs join" + context + b"\0", 32)
        self.key = [expand(prk, b"xdfs key" + context + bytes([d, suite]), 32) for d in (0, 1)]
        self.iv = [expand(prk, b"xdfs iv" + context + bytes([d, suite]), 12) for d in (0, 1)]
    def nonce(self, direction, sequence):
        iv = self.iv[direction]
        return iv[:4] + (int.from_bytes(iv[4:], "big") ^ sequence).to_bytes(8, "big")
    def seal(self, direction, sequence, level, head, payload):
        """What is sent for the payload, and the tag."""
        secret, data = (payload, head) if level == PRIVATE else (b"", head + (payload if level == INTEGRITY else b""))
        both = self.cipher(self.key[direction]).encrypt(self.nonce(direction, sequence), secret, data)
        return (both[:-16] if level == PRIVATE else payload), both[-16:]
    def open(self, direction, sequence, level, head, payload, tag):
        secret, data = (payload, head) if level == PRIVATE else (b"", head + (payload if level == INTEGRITY else b""))
        plain = self.cipher(self.key[direction]).decrypt(self.nonce(direction, sequence), secret + tag, data)
        return plain if level == PRIVATE else payload
    def follow(self, direction):
        """The keys of the next epoch."""
        key = self.key[direction]
        self.key[direction], self.iv[direction] = expand(key, b"xdfs rekey key", 32), expand(key, b"xdfs rekey iv", 12)

class Channel:
    def __init__(self, address):
        self.socket = socket.create_connection(address, timeout=30)
        self.sent = self.received = self.records = self.epoch = self.blocks = 0
        self.ended = self.over = False
    def exactly(self, count):
        data, at = bytearray(count), 0
        while at < count:
            at += (got := self.socket.recv_into(memoryview(data)[at:]))
            if got == 0:
                raise Failed("the server closed a connection without EOFT")  # [P-46]
        return bytes(data)
    def send(self, event, operation, payload=b"", offset=0, flags=0, level=PRIVATE):
        head = encode("head", {"event": event, "level": level, "operation": operation, "sequence": self.sent,
                               "offset": offset, "length": len(payload), "flags": flags})
        payload, tag = self.keys.seal(0, self.sent, level, head, payload)
        self.socket.sendall(head + tag + payload)
        self.sent += 1
    def control(self, event, operation, **fields):
        self.send(event, operation, encode(f"control {event}", fields))
    def receive(self):
        data = self.exactly(48)
        head, tag = decode("head", data[:32]), data[32:]
        if head["length"] > BLOCK_MAX or head["level"] >= len(LEVELS):
            raise Failed("a head that cannot be")
        try:
            payload = self.exactly(head["length"])
            payload = self.keys.open(1, self.received, head["level"], data[:32], payload, tag)
        except InvalidTag:
            raise Failed("wrong tag") from None  # [P-14]
        if head["sequence"] != self.received or head["epoch"] != self.epoch:
            raise Failed("a record out of sequence")  # [P-12]
        self.received, self.records = self.received + 1, self.records + 1
        if head["event"] == REKEY:  # [P-59]
            self.keys.follow(1)
            self.received, self.epoch = 0, self.epoch + 1
        return head, payload

# ---- how it gets in (section 3)
class Tls:
    """TLS 1.3 on a channel that leaves it again, fed with one record at a time."""
    def __init__(self, channel):
        context, self.channel, self.data = SSL.Context(SSL.TLS_CLIENT_METHOD), channel, b""
        context.set_min_proto_version(SSL.TLS1_3_VERSION)
        context.set_alpn_protos([b"xdfs/1"])
        self.tls, self.answer = SSL.Connection(context, None), None
        self.tls.set_connect_state()
    def step(self, action):
        while True:
            try:
                return action()
            except SSL.WantReadError:
                self.flush()
                self.answer = self.answer or answer(self.channel, 1)  # stands before the first record
                head = self.channel.exactly(5)
                self.tls.bio_write(head + self.channel.exactly(int.from_bytes(head[3:], "big")))
    def flush(self):
        with contextlib.suppress(SSL.WantReadError):  # nothing is to be sent
            self.channel.socket.sendall(self.tls.bio_read(1 << 20))
    def exactly(self, count):
        while len(self.data) < count:
            self.data += self.step(lambda: self.tls.recv(CONTROL_MAX))
        taken, self.data = self.data[:count], self.data[count:]
        return taken
    def leave(self):
        self.tls.bio_write(self.channel.exactly(24))
        with contextlib.suppress(SSL.ZeroReturnError):
            self.tls.recv(1)
            raise Failed("data where the end of TLS is due")  # [P-49]
        self.tls.shutdown()
        self.flush()

def preface(start):
    return encode("preface.client", {"magic": b"xdfs", "version_min": 1, "version_max": 1, "start": start})

def answer(channel, start):
    said = decode("preface.server", data := channel.exactly(8))
    if [said[name] for name in ("magic", "status", "version", "start")] != [b"xdfs", 1, 1, start]:
        raise Failed(f"no xdfs server, or it refuses: {said}")
    return data

def message(tls, wanted, prefaces):
    head = tls.exactly(4)
    kind, length = head[0], int.from_bytes(head[1:], "big")
    if length > CONTROL_MAX or kind not in (wanted, REFUSE):
        raise Failed("unexpected handshake message")
    fields = decode(f"handshake {kind}", tls.exactly(length))
    if kind == REFUSE:
        raise Failed(f"refused, error {fields['code']}: {fields['message'].decode()}")
    if fields["prefaces"] != prefaces:
        raise Failed("the opening bytes were altered on the way")  # [P-6], [P-52]
    return fields

def enter(channel, channels, level, pin, user, key):
    """Opens a session on a connection: what the server granted, and the join secret."""
    channel.socket.sendall(preface(1))  # [P-5]
    tls = Tls(channel)
    tls.step(tls.tls.do_handshake)
    host = tls.tls.get_peer_certificate().to_cryptography().public_key()
    host = hashlib.sha256(host.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()
    shown = "SHA256:" + base64.b64encode(host).decode().rstrip("=")
    if pin != shown:
        raise Failed(f"the server's key is {shown}, not {pin}")  # [P-51]
    prefaces, login = preface(1) + tls.answer, b""
    message(tls, HELLO, prefaces)
    export = lambda label, context: tls.tls.export_keying_material(label, 32, context)
    if user:
        with open(key, "rb") as file:
            key = load_ssh_private_key(file.read(), None)
        public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        said = b"xdfs login\0\1" + export(b"EXPORTER-xdfs-login-v1", b"") + host + prefaces + public + write_bytes(user)
        login = encode("login 1", {"user": user, "key": public, "signature": key.sign(said)})
    wishes = {"prefaces": prefaces, "channels": channels, "pipelines": 1, "level": level, "label": os.urandom(16),
              "suites": b"\1", "login": int(bool(user)), "credentials": login}
    said = encode(f"handshake {OPEN}", wishes)
    tls.tls.sendall(bytes([OPEN]) + len(said).to_bytes(3, "big") + said)
    tls.flush()
    accept = message(tls, ACCEPT, prefaces)
    join_secret = export(b"EXPORTER-xdfs-join-v1", accept["session"])
    tls.leave()
    return accept, join_secret

def proof(key, role, mine, theirs, said):
    return hmac.digest(key, role + mine + theirs + said, "sha256")

def join(channel, session, number, keys):
    channel.keys, said = keys, session + number.to_bytes(2, "big") + os.urandom(16)
    channel.socket.sendall(preface(2) + said + proof(keys.join, b"C", preface(2), bytes(8), said))
    expected = proof(keys.join, b"S", preface(2), answer(channel, 2), said)
    if not hmac.compare_digest(expected, channel.exactly(32)):
        raise Failed("the server's proof is wrong")
    return channel

class Session:
    def __init__(self, address, channels, level, pin, user, key):
        first, self.said = Channel(address), {}
        accept, join_secret = self.opened = enter(first, channels, level, pin, user, key)
        keys = lambda number: Keys(join_secret, accept["grant.secret"], accept["session"], number, accept["suite"])
        first.keys, self.channels = keys(1), [first]
        for number in range(2, accept["channels"] + 1):
            self.channels.append(join(Channel(address), accept["session"], number, keys(number)))
    def wait(self, seconds=30.0):
        """The next record of an operation, from whichever channel: (channel, head, block or fields), or None."""
        live = {channel.socket: channel for channel in self.channels if not channel.over}
        if not (readable := select.select(list(live), [], [], seconds)[0]):
            if seconds:
                raise Failed("the server is silent")
            return None
        channel = live[readable[os.urandom(1)[0] % len(readable)]]  # nobody waits for ever
        head, payload = channel.receive()
        event, kind = head["event"], f"control {head['event']}"
        if event in (CONM, UPLOAD, DOWNLOAD, PATHS, FILES, ZXDFS):
            return channel, head, payload
        if kind not in FORMS and event < 128:
            raise Failed(f"event {event}")  # [P-17]
        fields = self.said[event] = decode(kind, payload) if kind in FORMS else {}
        if event == EXCEPTION:
            raise Failed(f"error {fields['code']}: {fields['message'].decode()}")
        if event == NOOP and head["flags"] & ASK:
            channel.control(NOOP, 0)  # [P-44]
        channel.over = event == EOFT
        if channel.over and fields["records"] != channel.records - 1:
            raise Failed("EOFT counts other records than arrived")  # [P-46]
        return (channel, head, fields) if head["operation"] else None
    def until(self, event):
        while not (record := self.wait()) or record[1]["event"] != event:
            pass
        return record[2]
    def close(self):
        for channel in self.channels:
            channel.control(EOFT, 0, records=channel.sent)  # [P-46]
        while not all(channel.over for channel in self.channels):
            self.wait()

# ---- transfers
def get(session, wish, path):
    first, nothing = session.channels[0], (session.channels[0], {"event": NOOP}, {})
    first.send(DOWNLOAD, 1, encode(f"request {DOWNLOAD}", wish), flags=REQUEST)
    grant = session.until(GRANT)
    length, block, low, have = grant["length"], grant["block"], 0, {}
    first.control(CREDIT, 1, edge=WINDOW)
    with open(f"{path}.part", "wb") as file:
        while FINISH not in session.said or low < length:  # [P-41]: it may have overtaken GRANT
            channel, head, body = session.wait() or nothing
            if isinstance(body, bytes):
                channel.blocks, offset = channel.blocks + 1, head["offset"]
                if head["level"] < grant["level"] or offset % block or len(body) != min(block, length - offset):
                    raise Failed("a block at a lower level, or off the grid")  # [P-15], [P-27]
                if offset >= low and offset not in have:  # [P-31]
                    os.pwrite(file.fileno(), body, offset)
                    have[offset] = offset + len(body)
                while low in have:
                    low = have.pop(low)
                if low == length or sum(channel.blocks for channel in session.channels) % 8 == 0:
                    first.control(ACK, 1, safety=2, low=low, edge=low + WINDOW)  # [P-32]
    if session.said[FINISH]["length"] != length:
        raise Failed("FINISH names another length")
    os.replace(f"{path}.part", path)
    first.control(COMMITTED, 1, length=length, safety=2)
    while not any(channel.ended for channel in session.channels) \
            or any(channel.blocks and not channel.ended for channel in session.channels):
        channel, head, body = session.wait() or nothing
        channel.blocks += isinstance(body, bytes)
        if head["event"] == EOFR:
            channel.ended = True
            if body["blocks"] != channel.blocks:
                raise Failed("EOFR counts other blocks than arrived")  # [P-37]

def put(session, wish, path):
    first, status = session.channels[0], os.stat(path)
    length, modified = status.st_size, divmod(status.st_mtime_ns, 10**9)
    wish.update(flags=2 | 8, length=length, mode=status.st_mode & 0o777, modified=modified)
    first.send(UPLOAD, 1, encode(f"request {UPLOAD}", wish), flags=REQUEST)
    grant = session.until(GRANT)
    edge, block, offset = grant["edge"], grant["block"], 0
    with open(path, "rb", buffering=0) as file:
        while offset < length:
            size = min(block, length - offset)
            record = session.wait(30.0 if offset + size > edge else 0)  # [P-29]
            if record and record[1]["event"] in (ACK, CREDIT):
                edge = max(edge, record[2]["edge"])
            elif record is None and offset + size <= edge:
                if len(body := os.pread(file.fileno(), size, offset)) != size:
                    raise Failed("the file became shorter")
                channel = session.channels[offset // block % len(session.channels)]
                channel.send(UPLOAD, 1, body, offset=offset, level=grant["level"])
                channel.blocks, offset = channel.blocks + 1, offset + size
    first.control(FINISH, 1, length=length)
    if session.until(COMMITTED)["length"] != length:
        raise Failed("COMMITTED names another length")
    for channel in [channel for channel in session.channels if channel.blocks] or [first]:
        channel.control(EOFR, 1, blocks=channel.blocks)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="a minimal xdfs client")
    parser.add_argument("what", choices=["get", "put"])
    parser.add_argument("--level", choices=LEVELS, default="private")
    parser.add_argument("--channels", type=int, default=4)
    for option in ("address", "name", "path", "--pin", "--user", "--key"):
        parser.add_argument(option)
    asked = parser.parse_args()
    host, port = asked.address.rsplit(":", 1)
    wish = {"name": os.fsencode(asked.name), "label": os.fsencode(asked.path), "transfer": os.urandom(16),
            "level": LEVELS.index(asked.level)}
    try:
        session = Session((host.strip("[]"), int(port)), asked.channels, wish["level"], asked.pin,
                          os.fsencode(asked.user or ""), asked.key)
        (get if asked.what == "get" else put)(session, wish, asked.path)
        print(f"{len(session.channels)} channels, blocks on each: {[channel.blocks for channel in session.channels]}")
        session.close()
    except (Failed, OSError) as error:
        sys.exit(f"minimal.py: {error}")
