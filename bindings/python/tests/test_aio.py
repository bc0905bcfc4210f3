"""asyncio: many calls at a time, and those that are started together go together."""

import asyncio
import os

import pytest

import xdfs.aio


def run(work):
    return asyncio.run(asyncio.wait_for(work, 60))


def test_a_thousand_reads_at_a_time(server):
    data = os.urandom(1_000_000)

    async def work():
        async with xdfs.aio.FileSystem(server.url()) as fs:
            await fs.write_bytes("many", data)
            calls = []
            carry_out = fs._reads._carry_out
            fs._reads._carry_out = lambda ranges: calls.append(len(ranges)) or carry_out(ranges)
            parts = await asyncio.gather(*(fs.read_bytes("many", start, 1000) for start in range(0, 1_000_000, 1000)))
            assert b"".join(parts) == data and calls == [1000]
            async with await fs.open("many") as file:
                parts = await asyncio.gather(*(file.read_at(start, 1000) for start in range(0, 1_000_000, 1000)))
                assert b"".join(parts) == data

    run(work())


def test_one_failure_is_that_of_its_read_alone(server):
    async def work():
        async with xdfs.aio.FileSystem(server.url()) as fs:
            await fs.write_bytes("there", b"x")
            results = await asyncio.gather(fs.read_bytes("there"), fs.read_bytes("none"), return_exceptions=True)
            assert results[0] == b"x" and isinstance(results[1], FileNotFoundError)

    run(work())


def test_files_and_names(server, tmp_path):
    async def work():
        async with xdfs.aio.FileSystem(server.url()) as fs:
            await fs.mkdir("aio/below", parents=True)
            async with await fs.open("aio/file", "x+b") as file:
                await asyncio.gather(*(file.write_at(number * 4, b"%04d" % number) for number in range(100)))
                await file.sync()
                assert await file.size() == 400 and await file.read_at(40, 8) == b"00100011"
            async with await fs.open("aio/file", "ab") as file:
                await file.append(b"end")
            assert [entry.name for entry in await fs.ls("aio")] == ["below", "file"]
            assert await fs.get("aio/file", tmp_path / "down") == 403
            assert await fs.put(tmp_path / "down", "aio/up") == 403
            await fs.rename("aio/up", "aio/moved")
            assert (await fs.stat("aio/moved")).size == 403
            await fs.rmtree("aio")
            assert not await fs.exists("aio")
            with pytest.raises(ValueError):
                await fs.open("aio", "r")

    run(work())
