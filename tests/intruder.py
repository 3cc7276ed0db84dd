"""Tries what a user of the same machine can against another's ranks (test_class.py).

Standard input: JSON with the other's files, shared memory, processes and ports.
Standard output: a JSON list of what was reached.
"""

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time

import zmq
from jupyter_client.session import Session

LISTEN = 5.0  # seconds in which the other says the secret many times
ANSWER = 2.0
HOST = "tcp://127.0.0.1"


def opened(paths) -> list[str]:
    """Those files that can be opened, to read or to write."""
    found = []
    for path in paths:
        for flags in (os.O_RDONLY, os.O_WRONLY):
            with contextlib.suppress(OSError):
                os.close(os.open(path, flags))
                found.append(path)
    return found


def signalled(pids) -> list[int]:
    """Those processes that take a signal."""
    found = []
    for pid in pids:
        with contextlib.suppress(PermissionError, ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
            found.append(pid)
    return found


def connected(kind, port: int, key: bool):
    """A socket at the port; with a key: one that the other does not know."""
    there = zmq.Context.instance().socket(kind)
    there.linger = there.sndtimeo = 0
    if key:
        there.curve_serverkey, _ = zmq.curve_keypair()
        there.curve_publickey, there.curve_secretkey = zmq.curve_keypair()
    there.connect(f"{HOST}:{port}")
    return there


def overheard(ports) -> list[int]:
    """Those ports at which a subscriber hears anything."""
    there = {}
    for key in (False, True):
        for port in ports:
            subscriber = connected(zmq.SUB, port, key)
            subscriber.subscribe(b"")
            there[subscriber] = port
    return answered(there, LISTEN)


def hears() -> bool:
    """Whether a publisher that is not encrypted would be overheard."""
    publisher, over = zmq.Context.instance().socket(zmq.PUB), threading.Event()
    port = publisher.bind_to_random_port(HOST)

    def talk():
        while not over.wait(0.05):
            publisher.send(b"said")

    talking = threading.Thread(target=talk)
    talking.start()
    try:
        return overheard([port]) == [port]
    finally:
        over.set()
        talking.join()
        publisher.close(0)


def asked(ports) -> list[int]:
    """Those ports that answer a request, unsigned or signed with another key."""
    there = {}
    for key in (False, True):
        for secret in (b"", b"guessed"):
            for port in ports:
                client = connected(zmq.DEALER, port, key)
                for request in ("connection_request", "execute_request"):
                    with contextlib.suppress(zmq.Again):  # it has been turned away
                        Session(key=secret).send(client, request, {"code": "1", "silent": False})
                there[client] = port
    return answered(there, ANSWER)


def answered(there, limit: float) -> list[int]:
    poller = zmq.Poller()
    for one in there:
        poller.register(one, zmq.POLLIN)
    found, deadline = set(), time.monotonic() + limit
    while (left := deadline - time.monotonic()) > 0:
        found |= {there[one] for one, _ in poller.poll(left * 1000)}
        if len(found) == len(set(there.values())):
            break
        time.sleep(0.05)
    return sorted(found)


def shouted(ports) -> None:
    """What belongs to no protocol that is spoken there."""
    for port in ports:
        for words in (b"\0" * 64, b"GET / HTTP/1.0\r\n\r\n", b"\xff" * 4096):
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", port), 2) as there,
            ):
                there.sendall(words)
                there.settimeout(0.2)
                there.recv(1 << 16)


def main():
    other = json.load(sys.stdin)
    assert hears()
    environments = [f"/proc/{pid}/environ" for pid in other["processes"]]
    reached = {
        "files": opened(other["files"]),
        "memory": opened(other["memory"]),
        "environments": opened(environments),
        "processes": signalled(other["processes"]),
        "overheard": overheard(other["ports"]),
        "asked": asked(other["ports"]),
    }
    shouted(other["ports"])
    print(json.dumps([f"{what}: {found}" for what, found in reached.items() if found]))


if __name__ == "__main__":
    main()
