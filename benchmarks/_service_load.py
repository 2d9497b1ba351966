"""Load on loopback: connections kept open, requests sent at intended times or back to back."""

import asyncio
import time

import numpy as np

__all__ = ["Load", "closed_loop", "open_loop", "request_bytes"]

STATUS_END = 12  # of "HTTP/1.1 200"


def request_bytes(method, path, key, body=b"", media_type="application/json"):
    """The bytes of one request."""
    head = f"{method} {path} HTTP/1.1\r\nhost: loopback\r\nauthorization: Bearer {key}\r\n"
    if method == "POST":
        head += f"content-type: {media_type}\r\ncontent-length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


class Load(asyncio.Protocol):
    """One connection: a request at a time, and when its answer was complete."""

    def __init__(self):
        self.transport = self.waiting = None
        self._data = b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self._data += data
        end = self._data.find(b"\r\n\r\n")
        if end < 0:
            return
        at = self._data.find(b"content-length: ", 0, end)
        size = int(self._data[at + 16 : self._data.find(b"\r\n", at)])
        if len(self._data) < end + 4 + size:
            return
        answer, self._data = self._data, b""
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_result((int(answer[9:STATUS_END]), answer[end + 4 :]))

    def connection_lost(self, error):
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_exception(ConnectionError("the connection was closed"))

    async def send(self, data):
        """Send a request; return status and body of its answer."""
        self.waiting = asyncio.get_running_loop().create_future()
        self.transport.write(data)
        return await self.waiting


async def connected(port, number):
    """Open connections."""
    loop = asyncio.get_running_loop()
    made = [await loop.create_connection(Load, "127.0.0.1", port) for _ in range(number)]
    return [protocol for _, protocol in made]


async def closed_loop(port, connections, make, seconds):
    """Send back to back on every connection; return answers of status 200 per second."""
    links = await connected(port, connections)
    done, failed = 0, 0
    begin = time.perf_counter()
    end = begin + seconds

    async def run(link):
        nonlocal done, failed
        while time.perf_counter() < end:
            status, _ = await link.send(make())
            done += status == 200
            failed += status != 200

    await asyncio.gather(*map(run, links))
    spent = time.perf_counter() - begin
    for link in links:
        link.transport.close()
    return done / spent, failed


async def open_loop(port, connections, make, rate, seconds):
    """Send at intended times, however slow answers are; return latencies from those times.

    A request waits for a connection that is not in use; the wait is part of its latency.
    """
    links = await connected(port, connections)
    idle: asyncio.Queue = asyncio.Queue()
    for link in links:
        idle.put_nowait(link)
    latencies, failed, tasks = [], 0, set()

    async def one(intended):
        nonlocal failed
        link = await idle.get()
        try:
            status, _ = await link.send(make())
        finally:
            idle.put_nowait(link)
        latencies.append(time.perf_counter() - intended)
        failed += status != 200

    begin = time.perf_counter() + 0.05
    total = int(rate * seconds)
    for number in range(total):
        intended = begin + number / rate
        ahead = intended - time.perf_counter()
        if ahead > 0.0005:
            await asyncio.sleep(ahead)
        task = asyncio.ensure_future(one(intended))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    for link in links:
        link.transport.close()
    return np.array(latencies), failed
