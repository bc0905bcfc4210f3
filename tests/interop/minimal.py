#!/usr/bin/env python3
"""A minimal xdfs client, written from docs/protocol.md and vectors/ alone.

    minimal.py vectors [FOLDER]                     check every golden frame and every record vector
    minimal.py get HOST:PORT EXPORT/path FILE       download    [--channels N] [--level clear|integrity|private]
    minimal.py put HOST:PORT EXPORT/path FILE       upload      [--pin SHA256:...] [--user NAME --key FILE]

A test and an example, not a tool: one operation, no resume, and a lost channel ends the transfer. The words in brackets
are the rules of docs/protocol.md. TLS and the login are in opening.py. Needs python3, `cryptography` and `pyOpenSSL`.
"""
import argparse
import hmac
import os
import re
import select
import socket
import sys

from cryptography.exceptions import InvalidTag

from keys import PRIVATE, Keys

CONM, UPLOAD, DOWNLOAD, EOFR, EOFT, NOOP, ZXDFS, EXCEPTION, REKEY = 1, 2, 3, 6, 7, 8, 9, 10, 26
ACK, GRANT, CREDIT, CHANNELS, FENCE, CANCEL, FINISH, COMMITTED, DRAIN = 16, 17, 18, 19, 20, 21, 22, 23, 25
HELLO, OPEN, ACCEPT, REFUSE, AGAIN, REQUEST, ASK = 1, 2, 3, 4, 5, 1, 2
LEVELS = ["clear", "integrity", "private"]
CONTROL_MAX, BLOCK_MAX, WINDOW = 65536, 4 << 20, 256 << 20

# ---- messages
# A message is a list of name:form. Forms: uN (bits), int, rawN, bytesMAX, time, ranges, options. A mark behind a form
# says when it is there: `?N` where bit N of `flags` is set, `!name` where that field is not 0, `^name` where it is 0.
FIELD = re.compile(r"(\S+):([a-z]+)(\d*)(?:([?!^])(\S+))?")
ERROR = "code:int retry:u8 errno:int message:bytes1024"
WISH = ("flags:int name:bytes4096 label:bytes4096 transfer:raw16 offset:int length:int?2 level:u8 block:int"
        " credit:int mode:int modified:time?8 source:bytes64?32 kept:ranges?32")
FORMS = {
    "preface.client": "service:u8 magic:raw4 version_min:u8 version_max:u8 start:u8",
    "preface.server": "status:u8 magic:raw4 version:u8 zero:u8 start:u8",
    "join": "session:raw16 channel:u16 nonce:raw16 mac:raw32",
    "join.answer": "mac:raw32",
    "head": "event:u8 level:u8 epoch:u16 operation:u32 sequence:u64 offset:u64 length:u32 flags:u16 zero:u16",
    f"handshake {HELLO}": "prefaces:raw16 logins:int salts:raw16",
    f"handshake {AGAIN}": "left:u8",
    "login 1": "user:bytes128 key:raw32 signature:raw64",
    f"handshake {OPEN}": "prefaces:raw16 features:int channels:int pipelines:int window:int block:int level:u8"
                         " stall_ms:int label:raw16 suites:bytes16 login:int credentials:bytes16384 options:options first.event:u8"
                         " first.request:bytes65536!first.event",
    f"handshake {ACCEPT}": "prefaces:raw16 session:raw16 features:int channels:int pipelines:int window:int block:int"
                           " floor:u8 initial_credit:int stall_ms:int suite:u8 grant.first:int"
                           " grant.count:int grant.secret:raw32 grant.life_ms:int proof:bytes16384 options:options",
    f"handshake {REFUSE}": ERROR,
    f"request {UPLOAD}": WISH,
    f"request {DOWNLOAD}": WISH,
    f"control {EXCEPTION}": ERROR,
    f"control {ACK}": "safety:u8 low:int edge:int ranges:ranges",
    f"control {GRANT}": "flags:int level:u8 block:int edge:int length:int?1 size:int?2 ranges:ranges kind:u8 mode:int"
                        " modified:time?4 version:bytes64 kept:ranges?8",
    f"control {CHANNELS}": "kind:u8 count:int^kind grant.first:int!kind grant.count:int!kind grant.secret:raw32!kind"
                           " grant.life_ms:int!kind",
}
for event, form in ((CREDIT, "edge:int"), (FENCE, "channel:int processed:int"), (FINISH, "length:int root:bytes32"),
                    (COMMITTED, "length:int safety:u8 version:bytes64"), (EOFR, "blocks:int"), (EOFT, "records:int"),
                    (DRAIN, "retry_after_ms:int"), (NOOP, ""), (CANCEL, ""), (REKEY, "")):
    FORMS[f"control {event}"] = form


class Failed(Exception):
    """The server broke a rule, or gave a reason why it cannot."""


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def raw(self, count):
        if self.at + count > len(self.data):
            raise Failed("message ends inside a field")
        self.at += count
        return self.data[self.at - count:self.at]

    def fixed(self, width):
        return int.from_bytes(self.raw(width), "big")

    def int(self):
        first = self.fixed(1)
        more = (1 << (first >> 6)) - 1
        return (first & 0x3F) << 8 * more | self.fixed(more)

    def count(self, most):
        value = self.int()
        if value > most:
            raise Failed("a length or count passes its limit")
        return value

    def bytes(self, most):
        return self.raw(self.count(most))


def write_int(value):
    mark = next(mark for mark in range(4) if value < 1 << (8 * (1 << mark) - 2))
    return (value | mark << (8 * (1 << mark) - 2)).to_bytes(1 << mark, "big")


READ = {
    "u": lambda reader, size: reader.fixed(size // 8),
    "raw": lambda reader, size: reader.raw(size),
    "bytes": lambda reader, size: reader.bytes(size),
    "int": lambda reader, _: reader.int(),
    "time": lambda reader, _: (lambda zigzag: (zigzag >> 1 ^ -(zigzag & 1), reader.int()))(reader.int()),
    "ranges": lambda reader, _: [(reader.int(), reader.int()) for _ in range(reader.count(256))],
    "options": lambda reader, _: [(reader.int(), reader.bytes(1024)) for _ in range(reader.count(32))],
}
WRITE = {
    "u": lambda value, size: (value or 0).to_bytes(size // 8, "big"),
    "raw": lambda value, size: value or bytes(size),
    "bytes": lambda value, _: write_int(len(value or b"")) + (value or b""),
    "int": lambda value, _: write_int(value or 0),
    "time": lambda value, _: write_int(value[0] * 2 if value[0] >= 0 else -value[0] * 2 - 1) + write_int(value[1]),
    "ranges": lambda value, _: write_list(value, write_int),
    "options": lambda value, _: write_list(value, lambda data: write_int(len(data)) + data),
}


def write_list(items, second):
    return write_int(len(items or [])) + b"".join(write_int(one) + second(two) for one, two in items or [])


def walk(kind, fields):
    for name, form, size, mark, other in FIELD.findall(FORMS[kind]):
        there = {"": True, "?": other.isdigit() and fields.get("flags", 0) & int(other), "!": fields.get(other),
                 "^": not fields.get(other)}
        if there[mark]:
            yield name, form, int(size or 0)


def decode(kind, data):
    """The fields of a message, by the names that the vectors use."""
    reader, fields = Reader(data), {}
    for name, form, size in walk(kind, fields):
        fields[name] = READ[form](reader, size)
    if reader.at != len(data):
        raise Failed("bytes behind the last field")
    return fields


def encode(kind, fields):
    """The bytes of a message; fields that are not given are zero or empty."""
    return b"".join(WRITE[form](fields.get(name), size) for name, form, size in walk(kind, fields))


# ---- channels
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
        payload = self.exactly(head["length"])
        try:
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


def preface(start):
    return encode("preface.client", {"magic": b"xdfs", "version_min": 1, "version_max": 1, "start": start})


def answer(channel, start):
    data = channel.exactly(8)
    said = decode("preface.server", data)
    if [said[name] for name in ("magic", "status", "version", "start")] != [b"xdfs", 1, 1, start]:
        raise Failed(f"no xdfs server, or it refuses: {said}")
    return data


class Session:
    def __init__(self, address, channels, level, pin, user, key):
        first, self.said = Channel(address), {}
        accept, join_secret = __import__("opening").enter(first, channels, level, pin, user, key)
        keys = lambda number: Keys(join_secret, accept["grant.secret"], accept["session"], number)
        first.keys, self.channels = keys(1), [first]
        for number in range(2, accept["channels"] + 1):
            self.channels.append(join(Channel(address), accept["session"], number, keys(number)))

    def wait(self, seconds=30.0):
        """The next record of an operation, from whichever channel: (channel, head, block or fields), or None."""
        live = {channel.socket: channel for channel in self.channels if not channel.over}
        readable = select.select(list(live), [], [], seconds)[0]
        if not readable and seconds:
            raise Failed("the server is silent")
        if not readable:
            return None
        channel = live[readable[os.urandom(1)[0] % len(readable)]]  # nobody waits for ever
        head, payload = channel.receive()
        event, kind = head["event"], f"control {head['event']}"
        if event in (CONM, UPLOAD, DOWNLOAD, ZXDFS):
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


def frame(kind, **fields):
    payload = encode(f"handshake {kind}", fields)
    return bytes([kind]) + len(payload).to_bytes(3, "big") + payload


def message(channel, wanted):
    head = channel.exactly(4)
    kind, length = head[0], int.from_bytes(head[1:], "big")
    if length > CONTROL_MAX or kind not in (wanted, REFUSE):
        raise Failed("unexpected handshake message")
    fields = decode(f"handshake {kind}", channel.exactly(length))
    if kind == REFUSE:
        raise Failed(f"refused, error {fields['code']}: {fields['message'].decode()}")
    return fields


def proof(key, role, mine, theirs, said):
    return hmac.digest(key, role + mine + theirs + said, "sha256")


def join(channel, session, number, keys):
    said = session + number.to_bytes(2, "big") + os.urandom(16)
    channel.socket.sendall(preface(2) + said + proof(keys.join, b"C", preface(2), bytes(8), said))
    expected = proof(keys.join, b"S", preface(2), answer(channel, 2), said)
    if not hmac.compare_digest(expected, channel.exactly(32)):
        raise Failed("the server's proof is wrong")
    channel.keys = keys
    return channel


# ---- transfers
def get(session, name, path, level):
    first, nothing = session.channels[0], (session.channels[0], {"event": NOOP}, {})
    request = {"name": name, "label": os.fsencode(path), "transfer": os.urandom(16), "level": level, "flags": 0}
    first.send(DOWNLOAD, 1, encode(f"request {DOWNLOAD}", request), flags=REQUEST)
    grant = session.until(GRANT)
    length, block, low, have = grant["length"], grant["block"], 0, {}
    first.control(CREDIT, 1, edge=WINDOW)
    with open(f"{path}.part", "wb") as file:
        while FINISH not in session.said or low < length:  # [P-41]: it may have overtaken GRANT
            channel, head, body = session.wait() or nothing
            if isinstance(body, bytes):
                channel.blocks, offset, end = channel.blocks + 1, head["offset"], head["offset"] + len(body)
                if head["level"] < grant["level"] or offset % block or len(body) != min(block, length - offset):
                    raise Failed("a block at a lower level, or off the grid")  # [P-15], [P-27]
                if offset >= low and offset not in have:  # [P-31]
                    os.pwrite(file.fileno(), body, offset)
                    have[offset] = end
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


def put(session, name, path, level):
    first, status = session.channels[0], os.stat(path)
    length, modified = status.st_size, divmod(status.st_mtime_ns, 10**9)
    request = {"flags": 2 | 8, "name": name, "label": os.fsencode(path), "transfer": os.urandom(16), "length": length,
               "level": level, "mode": status.st_mode & 0o777, "modified": modified}
    first.send(UPLOAD, 1, encode(f"request {UPLOAD}", request), flags=REQUEST)
    grant = session.until(GRANT)
    edge, block, offset = grant["edge"], grant["block"], 0
    with open(path, "rb", buffering=0) as file:
        while offset < length:
            size = min(block, length - offset)
            record = session.wait(30.0 if offset + size > edge else 0)  # [P-29]
            if record and record[1]["event"] in (ACK, CREDIT):
                edge = max(edge, record[2]["edge"])
            elif record is None and offset + size <= edge:
                body = os.pread(file.fileno(), size, offset)
                if len(body) != size:
                    raise Failed("the file became shorter")
                channel = session.channels[offset // block % len(session.channels)]
                channel.send(UPLOAD, 1, body, offset=offset, level=grant["level"])
                channel.blocks, offset = channel.blocks + 1, offset + size
    first.control(FINISH, 1, length=length)
    if session.until(COMMITTED)["length"] != length:
        raise Failed("COMMITTED names another length")
    for channel in [channel for channel in session.channels if channel.blocks] or [first]:
        channel.control(EOFR, 1, blocks=channel.blocks)


def main():
    parser = argparse.ArgumentParser(description="a minimal xdfs client")
    parser.add_argument("what", choices=["vectors", "get", "put"])
    parser.add_argument("arguments", nargs="*")
    parser.add_argument("--channels", type=int, default=4)
    parser.add_argument("--level", choices=LEVELS, default="private")
    for option in ("--pin", "--user", "--key"):
        parser.add_argument(option)
    options = parser.parse_args()
    if options.what == "vectors":
        return __import__("vectors").check(*options.arguments)
    address, name, path = options.arguments
    host, port = address.rsplit(":", 1)
    try:
        level = LEVELS.index(options.level)
        session = Session((host.strip("[]"), int(port)), options.channels, level, options.pin, options.user, options.key)
        (get if options.what == "get" else put)(session, os.fsencode(name), path, level)
        print(f"{len(session.channels)} channels, blocks on each: {[channel.blocks for channel in session.channels]}")
        session.close()
    except (Failed, OSError) as error:
        sys.exit(f"minimal.py: {error}")


if __name__ == "__main__":
    sys.modules["minimal"] = sys.modules["__main__"]
    main()
