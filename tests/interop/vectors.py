"""Checks vectors/ with the codec and the keys of minimal.py: every field of every frame, every result of every record
vector. It must not know anything about the protocol that minimal.py does not."""
import hmac
import sys
from pathlib import Path

from minimal import ACCEPT, CODEC, FORMS, Keys, Reader, decode, encode, proof, write_bytes, write_int

# What a client with one operation never meets.
FORMS.update({
    "join": "session:raw16 channel:u16 nonce:raw16 mac:raw32",
    "join.answer": "mac:raw32",
    "handshake 5": "left:u8",
    "control 19": "kind:u8 count:int^kind grant.first:int!kind grant.count:int!kind grant.secret:raw32!kind"
                  " grant.life_ms:int!kind",
    "control 21": "",
    "control 27": "round:int ranges:ranges",
    "control 28": "handles:handles",
    "control 29": "notices:notices",
    "control 22": "length:int round:int root:bytes32 subtrees:subtrees",
})
CODEC["subtrees"] = (
    lambda reader, _: [(reader.int(), reader.int(), reader.raw(32)) for _ in range(reader.int())],
    lambda value, _: write_int(len(value or [])) + b"".join(
        write_int(offset) + write_int(length) + digest for offset, length, digest in value or []),
)
CODEC["handles"] = (
    lambda reader, _: [reader.int() for _ in range(reader.int())],
    lambda value, _: write_int(len(value or [])) + b"".join(map(write_int, value or [])),
)
CODEC["notices"] = (
    lambda reader, _: [(reader.int(), reader.int(), reader.raw(reader.int())) for _ in range(reader.int())],
    lambda value, _: write_int(len(value or [])) + b"".join(
        write_int(watch) + write_int(changes) + write_bytes(name) for watch, changes, name in value or []),
)


def flat(fields):
    """Fields as the vectors write them, one line each."""
    lines = {}
    for name, value in fields.items():
        if isinstance(value, bytes) and not name.startswith(tuple("0123456789")):
            lines[name] = value.hex()
        elif isinstance(value, tuple):
            lines[f"{name}.seconds"], lines[f"{name}.nanoseconds"] = str(value[0]), str(value[1])
        elif isinstance(value, list):
            lines[f"{name}.count"] = str(len(value))
            if name == "handles":
                lines |= {f"{name}[{index}]": str(handle) for index, handle in enumerate(value)}
                continue
            if name == "notices":
                for index, (watch, changes, changed) in enumerate(value):
                    lines |= {f"{name}[{index}].watch": str(watch), f"{name}[{index}].changes": str(changes)}
                    lines[f"{name}[{index}].name"] = changed.hex()
                continue
            for index, (one, two, *digest) in enumerate(value):
                keys = ("key", "value") if name == "options" else ("offset", "length")
                lines[f"{name}[{index}].{keys[0]}"] = str(one)
                lines[f"{name}[{index}].{keys[1]}"] = two.hex() if isinstance(two, bytes) else str(two)
                lines |= {f"{name}[{index}].value": one.hex() for one in digest}
        else:
            lines[name] = str(value)
    return {name: value for name, value in lines.items() if value != ""}


def check_frame(text):
    kind, data, shown = "", b"", {}
    for line in text.splitlines():
        if line.startswith("kind = "):
            kind = line[7:]
        elif not line.startswith("#"):
            code, meaning = line.split(None, 1)
            name, value = meaning.split(" = ")
            data += bytes.fromhex(code)
            if kind == "integers":
                assert Reader(bytes.fromhex(code)).int() == int(value) and write_int(int(value)).hex() == code
            elif not name.endswith(".length") or "[" in name and name.startswith(("range", "kept", "subtrees")):
                shown[name] = value
    if kind == "integers":
        return
    if kind == "handshake":
        if shown["type"] in ("6", "7"):
            return  # SCRAM's own text
        kind, length, data = f"handshake {shown.pop('type')}", int(shown.pop("length")), data[4:]
        assert length == len(data)
    fields = decode(kind, data)
    assert flat(fields) == shown, (flat(fields), shown)
    assert encode(kind, fields) == data


def check_record(fields):
    number = lambda name: int(fields[name])
    data = lambda name: bytes.fromhex(fields[name])
    keys = Keys(data("join_secret"), data("grant"), data("session"), number("channel"),
                int(fields.get("suite", 1)))
    if "transcript" in fields:
        assert keys.join == data("join_key")
        for role, name in ((b"C", "client_proof"), (b"S", "server_proof")):
            assert hmac.digest(keys.join, role + data("transcript"), "sha256") == data(name)
        return
    direction = number("direction")
    for _ in range(number("epoch")):
        keys.follow(direction)
    key, iv = keys.key[direction], keys.iv[direction]
    assert (key, iv) == (data("key"), data("iv"))
    sealed = keys.seal(direction, number("sequence"), number("level"), data("head"), data("payload"))
    assert sealed == (data("sealed"), data("tag"))
    opened = keys.open(direction, number("sequence"), number("level"), data("head"), *sealed)
    assert opened == data("payload")


def named(text):
    return dict((line.split(" =", 1)[0], line.split(" =", 1)[1].strip()) for line in text.splitlines())


def check_proofs(root):
    """The JOIN of the handshake folder follows from its other files."""
    read = lambda name: bytes.fromhex("".join(line.split()[0] for line in (root / name).read_text().splitlines()[2:]))
    accept = decode(f"handshake {ACCEPT}", read("handshake/accept.txt")[4:])
    keys = Keys(bytes(range(0x20, 0x40)), accept["grant.secret"], accept["session"], 2)
    mine, theirs = read("handshake/preface-join.txt"), read("handshake/preface-joining.txt")
    said, mac = read("handshake/join.txt")[:34], read("handshake/join.txt")[34:]
    assert proof(keys.join, b"C", mine, bytes(8), said) == mac
    assert proof(keys.join, b"S", mine, theirs, said) == read("handshake/join-answer.txt")


def check(folder=Path(__file__).parents[2] / "vectors"):
    root = Path(folder)
    count = 0
    for file in sorted(file for folder in ("wire", "handshake", "record") for file in root.glob(f"{folder}/*.txt")):
        try:
            if file.parent.name == "record":
                check_record(named(file.read_text()))
            else:
                check_frame(file.read_text())
        except Exception as error:
            sys.exit(f"{file}: {type(error).__name__} {error}")
        count += 1
    check_proofs(root)
    if count == 0:
        sys.exit(f"no vectors in {root}")
    print(f"{count} vectors agree")


if __name__ == "__main__":
    check(*sys.argv[1:])
