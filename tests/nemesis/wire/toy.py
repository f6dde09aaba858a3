"""A server and a client that speak Kafka's framing and nothing more, for gates between real network namespaces.

python -m tests.nemesis.wire.toy serve 10.77.0.12 9092                       every request is answered with "answer"
python -m tests.nemesis.wire.toy drive 10.77.0.12 9092 --connections 4 --in-flight 1 --seconds 3
    {"answers": 41230, "seconds": 3.0, "p50_us": 231.2}       p50 of a round trip, with one request in flight
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import struct
import sys
import time

import uvloop

from tests.nemesis.wire.rig import request, response

ANSWER = response(0)


class Server(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.rest = b""

    def data_received(self, data: bytes) -> None:
        data, at, answers = self.rest + data, 0, []
        while len(data) - at >= 12:
            (length,) = struct.unpack_from(">i", data, at)
            if len(data) - at < 4 + length:
                break
            answers.append(ANSWER[:4] + data[at + 8 : at + 12] + ANSWER[8:])
            at += 4 + length
        self.rest = data[at:]
        self.transport.write(b"".join(answers))  # type: ignore[attr-defined]


class Client(asyncio.Protocol):
    def __init__(self, in_flight: int) -> None:
        self.in_flight = in_flight
        self.requests = b"".join(request(number) for number in range(in_flight))
        self.answers = 0
        self.missing = 0
        self.took: list[float] = []
        self.stopped = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.ask()

    def ask(self) -> None:
        self.missing = self.in_flight * len(ANSWER)
        self.began = time.perf_counter()
        self.transport.write(self.requests)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self.missing -= len(data)
        if self.missing <= 0:
            self.took.append(time.perf_counter() - self.began)
            self.answers += self.in_flight
            if not self.stopped:
                self.ask()


async def serve(host: str, port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Server, host, port)
    print("serving", flush=True)
    await server.serve_forever()


async def drive(host: str, port: int, connections: int, in_flight: int, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    clients = [(await loop.create_connection(lambda: Client(in_flight), host, port))[1] for _ in range(connections)]
    began, before = time.perf_counter(), sum(client.answers for client in clients)
    await asyncio.sleep(seconds)
    for client in clients:
        client.stopped = True
    took = time.perf_counter() - began
    answers = sum(client.answers for client in clients) - before
    p50 = statistics.median(each for client in clients for each in client.took) * 1e6
    print(json.dumps({"answers": answers, "seconds": took, "p50_us": p50}))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["serve", "drive"])
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--in-flight", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0)
    given = parser.parse_args()
    if given.what == "serve":
        uvloop.run(serve(given.host, given.port))
    else:
        uvloop.run(drive(given.host, given.port, given.connections, given.in_flight, given.seconds))


if __name__ == "__main__":
    sys.exit(main())
