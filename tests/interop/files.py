#!/usr/bin/env python3
"""Remote files, written from docs/protocol.md and vectors/ alone: calls on an open file, and a watch.

    files.py write HOST:PORT EXPORT/path OFFSET FILE        makes the file if it is missing, writes, syncs
    files.py append HOST:PORT EXPORT/path FILE              says at which offset it went
    files.py read HOST:PORT EXPORT/path OFFSET+LENGTH ...   the ranges, one behind the other, by one batch
    files.py lock HOST:PORT EXPORT/path                     says `locked`, and keeps the lock until its input ends
    files.py watch HOST:PORT EXPORT/directory               says `watching`, and then the first changes that it is told
    files.py again HOST:PORT EXPORT/path FILE               locks and writes, half of it in a session that is lost
    files.py stale HOST:PORT EXPORT/path                    says what the server says to handles that are not open

With the options --pin, --user and --key of minimal.py, which has what is below these calls; one operation at a time, on
one channel. `files.py vectors DIRECTORY` compares the messages of section 17 with their vectors.
"""
import argparse
import os
import pathlib
import select
import sys

from minimal import CODEC, EOFR, FILES, FORMS, PATHS, PRIVATE, REQUEST, Failed, Reader, Session
from minimal import decode, encode, walk

NOTICE, STOP, BATCH_MAX, RANGES_MAX = 29, 1, 256 << 10, 64
CHANGES = {1: "content", 2: "attributes", 4: "name", 8: "look again", 16: "over"}

# ---- messages (sections 8 and 17)
ATTRIBUTES = ("kind:u8 told:int mode:int?1 size:int?2 modified:time?4 accessed:time?8 links:int?16 inode:raw16?32"
              " user:int?64 group:int?64 user.name:bytes128?128 group.name:bytes128?128 major:int?256 minor:int?256"
              " allocated:int?512 change:u64?1024 version:bytes64?2048 target:bytes4095?4096 xattrs:u8?8192")
CALLS = {  # of an open file: name, code, arguments, result
    ("open", 1): ("path:bytes32768 flags:int mode:int identity:raw24?128 handle:int?128",
                  "handle:int identity:raw24 verifier:raw16 size:int change:u64"),
    ("close", 2): ("", ""),
    ("read", 3): ("ranges:ranges", "ranges:texts"),
    ("write", 4): ("offset:int data:bytes262144", "change:u64"),
    ("append", 5): ("data:bytes262144", "offset:int change:u64"),
    ("setlength", 6): ("length:int", "change:u64"),
    ("sync", 7): ("flags:int", "verifier:raw16"),
    ("allocate", 8): ("offset:int length:int flags:int", "change:u64"),
    ("punch", 9): ("offset:int length:int", "change:u64"),
    ("seek", 10): ("offset:int flags:int", "flags:int offset:int?1"),
    ("fstat", 11): ("wanted:int", ATTRIBUTES),
    ("lock", 12): ("flags:int", ""),
    ("unlock", 13): ("", ""),
    ("lease", 14): ("flags:int handle:int?4", "flags:int time_ms:int"),
    ("lockrange", 17): ("flags:int owner:raw8 offset:int length:int", ""),
    ("unlockrange", 18): ("owner:raw8 offset:int length:int", ""),
    ("findlock", 19): ("flags:int owner:raw8 offset:int length:int", "flags:int offset:int?1 length:int?1"),
    ("readpipe", 20): ("length:int wait_ms:int", "flags:int offset:int data:bytes262144"),
    ("writepipe", 21): ("offset:int wait_ms:int data:bytes262144", "flags:int taken:int"),
}
WATCH = ("watch", 28)  # the only call on a path that is made here
FORMS[f"control {NOTICE}"] = "notices:notices"
for event, place in ((PATHS, "base:bytes32768"), (FILES, "handle:int")):
    FORMS[f"batch {event}"] = f"flags:int room:int request:raw16 age_ms:int?4 {place} calls:options"
for event, calls in ((PATHS, {WATCH: ("path:bytes32768 flags:int watch:int", "")}), (FILES, CALLS)):
    for (name, code), (arguments, result) in calls.items():
        FORMS[f"call {event} {code}"], FORMS[f"result {event} {code}"] = arguments, result
CODES = dict(CALLS.keys()) | dict([WATCH])
CODEC["texts"] = (lambda reader, _: [reader.raw(reader.int()) for _ in range(reader.int())], None)  # only read
CODEC["notices"] = (lambda reader, _: [(reader.int(), reader.int(), reader.raw(reader.int()))
                                       for _ in range(reader.int())], None)

class Answered(Failed):
    """A call failed; the calls before it did not."""
    def __init__(self, name, status):
        super().__init__(f"{name}: error {status}")
        self.status = status

def read_results(event, codes, data):
    """The safety, and what each call was answered: its result, or its status and errno."""
    reader = Reader(data)
    safety, results = reader.raw(1)[0], []
    if reader.int() != len(codes):
        raise Failed("results of other calls")
    for code in codes:
        results.append(fields := {"status": reader.int()})
        if fields["status"]:
            fields["errno"] = reader.int()
            continue
        for name, form, size in walk(f"result {event} {code}", fields):
            fields[name] = CODEC[form][0](reader, size)
    if reader.read():
        raise Failed("bytes behind the last result")
    return safety, results

class Files(Session):
    """A session whose operations are batches of calls."""
    operation = 0
    def batch(self, event, *calls, room=0, **fields):
        """Makes the calls, each a name and its arguments, and answers their results."""
        calls, channel = [(name, CODES[name], arguments) for name, arguments in calls], self.channels[0]
        listed = [(code, encode(f"call {event} {code}", arguments)) for _, code, arguments in calls]
        room += 8 + 96 * len(calls)  # [P-71]
        said = encode(f"batch {event}", {"flags": STOP, "room": room, "calls": listed, **fields})
        if max(len(said), room) > self.most():
            raise Failed("more than fits into a batch")  # [P-18]
        self.operation += 1
        channel.send(event, self.operation, said, flags=REQUEST)
        while not (record := self.wait()) or record[1]["event"] != event:
            pass
        channel.control(EOFR, self.operation, blocks=0)  # [P-69]
        _, results = read_results(event, [code for _, code, _ in calls], record[2])
        for (name, _, _), result in zip(calls, results):
            if result["status"]:
                raise Answered(name, result["status"])
        return results
    def most(self):
        return min(self.opened[0]["block"], BATCH_MAX)
    def call(self, on, name, **arguments):
        return self.batch(FILES, (name, arguments), handle=on)[0]
    def open(self, path, flags, mode=0o644, **arguments):
        return self.call(0, "open", path=path, flags=flags, mode=mode, **arguments)

# ---- what it does
def pieces(session, path):
    with open(path, "rb") as file:
        while data := file.read(session.most() // 2):
            yield data

def finish(session, handle, verifier):
    synced, _ = session.batch(FILES, ("sync", {}), ("close", {}), handle=handle)
    if synced["verifier"] != verifier:
        raise Failed("the server was started anew; what was written may be lost")  # [P-85]

def write(session, name, offset, path):
    opened, offset = session.open(name, flags=2 | 4), int(offset)
    for data in pieces(session, path):
        session.call(opened["handle"], "write", offset=offset, data=data)
        offset += len(data)
    finish(session, opened["handle"], opened["verifier"])

def append(session, name, path):
    opened = session.open(name, flags=2 | 4)
    for data in pieces(session, path):
        call = ("append", {"data": data})
        print(session.batch(FILES, call, handle=opened["handle"], request=os.urandom(16))[0]["offset"])  # [P-74]
    session.call(opened["handle"], "close")

def read(session, name, *ranges):
    ranges = [tuple(map(int, one.split("+"))) for one in ranges]
    reads = [("read", {"ranges": ranges[at:at + RANGES_MAX]}) for at in range(0, len(ranges), RANGES_MAX)]
    room = sum(length + 8 for _, length in ranges)
    _, *answers, _ = session.batch(FILES, ("open", {"path": name, "flags": 1}), *reads, ("close", {}), room=room)
    for data in (data for answer in answers for data in answer["ranges"]):
        sys.stdout.buffer.write(data)

def lock(session, name):
    handle = session.open(name, flags=1 | 2 | 4)["handle"]
    session.call(handle, "lock", flags=1)
    print("locked", flush=True)
    while not select.select([sys.stdin], [], [], 0.1)[0]:
        session.wait(0)
    session.batch(FILES, ("unlock", {}), ("close", {}), handle=handle)

def watch(session, name):
    session.batch(PATHS, ("watch", {"flags": 1, "watch": 1}), base=name)
    print("watching", flush=True)
    while NOTICE not in session.said:
        session.wait()
    for number, changes, changed in session.said[NOTICE]["notices"]:
        print(number, os.fsdecode(changed), *(word for bit, word in CHANGES.items() if changes & bit))
    session.batch(PATHS, ("watch", {"flags": 2, "watch": 1}), base=name)

def again(session, name, path):
    with open(path, "rb") as file:
        data = file.read()
    first, opened = len(data) // 2, session.open(name, flags=2 | 4)
    session.call(opened["handle"], "lock", flags=1)
    session.call(opened["handle"], "write", offset=0, data=data[:first])
    session.channels[0].socket.close()
    session = connect()
    known = {"identity": opened["identity"], "handle": opened["handle"]}
    handle = session.open(name, flags=2 | 128, mode=0, **known)["handle"]  # [P-82]
    session.call(handle, "lock", flags=1)  # [P-88]: the lock ended
    session.call(handle, "write", offset=first, data=data[first:])
    finish(session, handle, opened["verifier"])
    return session

def stale(session, name):
    other = connect()
    handles = {"closed": session.open(name, flags=1)["handle"], "foreign": other.open(name, flags=1)["handle"],
               "forged": int.from_bytes(os.urandom(7), "big")}
    session.call(handles["closed"], "close")
    for kind, handle in handles.items():
        try:
            session.call(handle, "read", ranges=[(0, 1)])
        except Answered as error:
            print(kind, error.status)
    other.close()

# ---- the vectors
def flat(value, name=""):
    """The fields of a message, by the names that the vectors use."""
    if isinstance(value, tuple):
        value = dict(zip(("offset", "length") if len(value) == 2 else ("watch", "changes", "name"), value))
    if isinstance(value, dict):
        for key, one in value.items():
            yield from flat(one, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for place, one in enumerate(value):
            yield from flat(one, f"{name}[{place}]")
    elif value != b"":  # of which a vector has the length alone
        yield name, value.hex() if isinstance(value, bytes) else str(value)

def vectors(directory):
    count = 0
    for path in sorted(pathlib.Path(directory).glob("*/*.txt")):
        first, *lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        kind, *codes = first.removeprefix("kind = ").split()
        if kind not in ("file.batch", "file.reply") and [kind, *codes] != ["control", str(NOTICE)]:
            continue
        data = bytes.fromhex("".join(line.split()[0] for line in lines))
        if kind == "file.batch":
            fields = decode(f"batch {FILES}", data)
            if encode(f"batch {FILES}", fields) != data:
                raise Failed(f"{path}: encoded in another way")
            fields["calls"] = [{"code": code, **decode(f"call {FILES} {code}", said)} for code, said in fields["calls"]]
        elif kind == "file.reply":
            fields = dict(zip(("safety", "results"), read_results(FILES, list(map(int, codes)), data)))
        else:
            fields = decode(f"control {NOTICE}", data)
        mine, theirs = dict(flat(fields)), dict(line.split(None, 1)[1].split(" = ") for line in lines)
        counts = {name for name in theirs.keys() - mine.keys() if name.endswith((".length", ".count", ".arguments"))}
        if mine != {name: value for name, value in theirs.items() if name not in counts}:
            raise Failed(f"{path}: {mine} is not {theirs}")
        count += 1
    print(f"{count} vectors agree")

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="calls on remote files")
    parser.add_argument("what", choices=["write", "append", "read", "lock", "watch", "again", "stale", "vectors"])
    for option in ("address", "--pin", "--user", "--key"):
        parser.add_argument(option)
    parser.add_argument("words", nargs="*")
    asked = parser.parse_intermixed_args()
    try:
        if asked.what == "vectors":
            sys.exit(vectors(asked.address))
        host, port = asked.address.rsplit(":", 1)
        login = (asked.pin, os.fsencode(asked.user or ""), asked.key)
        connect = lambda: Files((host.strip("[]"), int(port)), 1, PRIVATE, *login)
        session, (name, *words) = connect(), asked.words
        session = globals()[asked.what](session, os.fsencode(name), *words) or session
        session.close()
    except (Failed, OSError) as error:
        sys.exit(f"files.py: {error}")
