"""Random calls on a file of the working directory through several descriptors, beside a buffer: `SEED CALLS`."""

import os
import random
import sys

SIZE = 2_000_000
seed, calls = int(sys.argv[1]), int(sys.argv[2])
random.seed(seed)
name = f"random-{seed}"
content = bytearray()
files = [os.open(name, os.O_RDWR | os.O_CREAT)]


def write(file):
    at = len(content) if random.random() < 0.5 else random.randrange(SIZE)
    data = random.randbytes(random.choice([1, 7, 100, 4096, 5000, 65536, 300000]))
    content.extend(bytes(max(0, at - len(content))))
    content[at : at + len(data)] = data
    done = 0
    while done < len(data):
        done += os.pwrite(file, data[done:], at + done)


def read(file):
    at, length = random.randrange(len(content) + 1), random.choice([1, 100, 4096, 131072, 1000000])
    for _ in range(random.choice([1, 1, 4])):
        assert os.pread(file, length, at) == content[at : at + length], ("bytes", at, length)
        at += length


def cut(file):
    length = random.randrange(SIZE)
    os.ftruncate(file, length)
    del content[length:]
    content.extend(bytes(length - len(content)))


def look(file):
    entry = next(entry for entry in os.scandir() if entry.name == name)
    length = random.choice([lambda: os.fstat(file), lambda: os.stat(name), entry.stat])().st_size
    assert length == len(content), ("length", length, len(content))


def open_or_close(file):
    if len(files) < 4:
        files.append(os.open(name, os.O_RDWR))
    else:
        files.remove(file)
        os.close(file)


def sync(file):
    os.fsync(file)


def rename(_):
    os.rename(name, name + "-else")
    os.rename(name + "-else", name)


def whole(_):
    with open(name, "rb") as again:
        assert again.read() == content, "the whole file"


for call in range(calls):
    kind = random.choice([write, write, write, read, read, read, cut, look, open_or_close, sync, rename, whole])
    try:
        kind(random.choice(files))
    except AssertionError as error:
        sys.exit(f"seed {seed}, call {call}: {error}")
for file in files:
    os.close(file)
with open(os.path.join("..", "server", name), "rb") as file:
    assert file.read() == content, "what the server has"
