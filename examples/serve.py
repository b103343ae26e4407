"""
A stream behind a socket
========================

A server for live sequences: it receives one line of JSON per sample, replies with one line, and pushes the samples that
arrive together as one batch. ``python examples/serve.py 8125`` runs until it is stopped; without a port, it serves a
demo with two patients and exits.
"""

import asyncio
import json
import sys

from unicornn import UnICORNN
from unicornn.errors import UnicornnError
from unicornn.models import Classifier
from unicornn.streams import Stream

stream = Stream(Classifier(UnICORNN(2, 32, 2), 3), capacity=10_000, ttl=600)
waiting: list = []  # (key, sample, future of the reply)


def push(samples: dict) -> dict:
    """A rejected push changes nothing, so its samples are retried one by one, and only the invalid ones fail."""
    try:
        return {key: {"logits": logits.tolist()} for key, logits in stream.push(samples).items()}
    except UnicornnError as error:
        one = len(samples) == 1
        return {key: {"error": str(error)} if one else push({key: x})[key] for key, x in samples.items()}


async def push_together() -> None:
    while True:
        await asyncio.sleep(0.01)  # collects samples; they also arrive during a push, which runs in a thread
        here = {}
        while waiting and waiting[0][0] not in here:  # a patient's second sample waits for the next push
            key, *here[key] = waiting.pop(0)
        replies = await asyncio.to_thread(push, {key: here[key][0] for key in here}) if here else {}
        for key, answer in replies.items():
            here[key][1].set_result(answer)


async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    async for line in reader:
        answer = asyncio.get_running_loop().create_future()
        try:
            asked = json.loads(line)
            waiting.append((str(asked["key"]), asked["sample"], answer))
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            answer.set_result({"error": f"expected a key and a sample, got {error!r}"})
        writer.write(json.dumps(await answer).encode() + b"\n")


async def main() -> None:
    server = await asyncio.start_server(client, "127.0.0.1", int(sys.argv[1]) if sys.argv[1:] else 0)
    pushing = asyncio.create_task(push_together())
    if sys.argv[1:]:
        await pushing  # forever
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    for key, sample in (("bed 1", [0.1, 0.2]), ("bed 2", [-1.0, 0.5]), ("bed 1", [float("nan"), 0]), ("bed 1", [0, 0])):
        writer.write(json.dumps({"key": key, "sample": sample}).encode() + b"\n")
        print(key, json.loads(await reader.readline()))
    writer.close()
    await asyncio.sleep(0.1)


asyncio.run(main())
