"""Python's HTTP libraries at the examples: requests, httpx and aiohttp.

Arguments: the addresses of hello_http, json, upload, stream, events, files and websocket. Ends with
3 where a library is missing.
"""

import asyncio
import os
import sys

try:
    import aiohttp
    import httpx
    import requests
except ImportError as error:
    print(error)
    sys.exit(3)

NAMES = ("hello", "json", "upload", "stream", "events", "files", "websocket")
URLS = {name: f"http://{address}" for name, address in zip(NAMES, sys.argv[1:], strict=True)}
# What the test has put into the folder of `files`.
PAGE = bytes(range(256)) * 1000
BODY = os.urandom(3_000_000)
COUNT = 100_000
NUMBERS = [str(number) for number in range(1, COUNT + 1)]
checks = 0


def check(fine, *what):
    global checks
    assert fine, what
    checks += 1


def pieces():
    for start in range(0, len(BODY), 70_001):
        yield BODY[start : start + 70_001]


def blocking(name, session, body, lines):
    """`body`: the argument of a call that has one; `lines`: of a stream of events."""
    first = session.get(URLS["hello"])
    for _ in range(50):
        again = session.get(URLS["hello"])
        check((again.status_code, again.content) == (200, first.content), name)
    check("6.5" in session.post(URLS["json"] + "/sum", json=[1, 2, 3.5]).text, name)
    for path, content in ((name, BODY), (name + "-chunked", pieces())):
        url = f"{URLS['upload']}/{path}"
        check(session.put(url, **{body: content}).status_code < 300, path)
        check(session.get(url).content == BODY, path)
    numbers = session.get(f"{URLS['stream']}/count?{COUNT}").text.split()
    check(numbers == NUMBERS, name, numbers[-3:])
    page = URLS["files"] + "/page"
    check(session.get(page).content == PAGE, name)
    part = session.get(page, headers={"Range": "bytes=10-99"})
    check((part.status_code, part.content) == (206, PAGE[10:100]), name)
    check(session.get(page + "-missing").status_code == 404, name)
    check(session.post(URLS["events"] + "/post", **{body: "from " + name}).status_code < 300, name)
    for line in lines(URLS["events"] + "/events", {"Last-Event-ID": "0"}):
        if line == "data: from " + name:
            check(True)
            break
    else:
        check(False, name, "no event")


def requests_lines(url, fields):
    with requests.get(url, headers=fields, stream=True, timeout=20) as answer:
        yield from answer.iter_lines(chunk_size=1, decode_unicode=True)


def httpx_lines(url, fields):
    with httpx.stream("GET", url, headers=fields, timeout=20) as answer:
        yield from answer.iter_lines()


async def concurrent():
    async with aiohttp.ClientSession() as session:

        async def get(url, **fields):
            async with session.get(url, headers=fields) as answer:
                return answer.status, await answer.read()

        all_of = await asyncio.gather(*[get(URLS["hello"]) for _ in range(100)])
        check(len(set(all_of)) == 1 and all_of[0][0] == 200, "aiohttp")
        url = URLS["upload"] + "/aiohttp"
        async with session.put(url, data=BODY) as answer:
            check(answer.ok, "aiohttp")
        check(await get(url) == (200, BODY), "aiohttp")
        _, numbers = await get(f"{URLS['stream']}/count?{COUNT}")
        check(numbers.decode().split() == NUMBERS, "aiohttp")
        check(await get(URLS["files"] + "/page") == (200, PAGE), "aiohttp")
        async with session.ws_connect(URLS["websocket"]) as socket:
            for text in ("one", "x" * 70_000):
                await socket.send_str(text)
                check((await socket.receive()).data == text, "aiohttp")


with requests.Session() as session:
    blocking("requests", session, "data", requests_lines)
with httpx.Client(timeout=20) as client:
    blocking("httpx", client, "content", httpx_lines)
asyncio.run(concurrent())
print(f"{checks} checks passed")
