"""Servers that fail in many ways and repeat the request, and the secrets to search for."""

import base64
import json

from raw_server import CLOSE, HANG, redirect, reply


def basic(text):
    return "Basic " + base64.b64encode(text.encode("utf-8")).decode("ascii")


DONE = reply('{"status": "done"}')
NO = reply('{"error": "token expired"}', "401 Unauthorized")
SECRETS = {
    "token": "tok-6e1f93",
    "header": "hdr-93ba07",
    "query": "qry-07ddc2",
    "password": "pwd-c24e5a",
    "proxy": "prx-5a886e",
}
TRACES = [form for secret in SECRETS.values() for form in (secret, secret[:7], secret[4:])]
TRACES += [
    basic(user + SECRETS[name])[6:-4] for user, name in (("me:", "password"), ("us:", "proxy"))
]


def echo(connection, request):
    """A server that answers with the request."""
    connection.send(request.raw)
    connection.close()


def echo_in_json(connection, request):
    """An API that repeats the credential in its error, as some do."""
    connection.send(
        reply(
            json.dumps({"error": "bad key " + request.headers.get("x-api-key", "")}),
            "400 Bad Request",
        )
    )


FAILURES = {
    "done": DONE,
    "failed": reply('{"status": "failed", "error": "out of paper"}'),
    "unauthorised": NO,
    "forbidden": reply(b"", "403 Forbidden"),
    "not found": reply(b"", "404 Not Found"),
    "refused": reply("{}", "410 Gone"),
    "server error": reply("oops", "500 Oops"),
    "login page": reply("<html>", Content_Type="text/html"),
    "empty": reply(b""),
    "no status": reply('{"a": 1}'),
    "hung up": CLOSE,
    "slow": HANG,
    "garbage": [b"SSH-2.0\r\n", CLOSE],
    "cut short": [reply(b"{}")[:-1], CLOSE],
    "too large": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
    "redirect loop": redirect("?api_key=" + SECRETS["query"]),
    "redirect to ftp": redirect(
        "ftp://me:%s@h/?token=%s" % (SECRETS["password"], SECRETS["query"])
    ),
    "redirect to nowhere": redirect("http://me:%s@h:99999/" % SECRETS["password"]),
    "303 to nowhere": redirect(
        "http://me:%s@127.0.0.1:1/?key=%s" % (SECRETS["password"], SECRETS["query"]),
        "303 See Other",
    ),
    "202 elsewhere": redirect("/other?access_token=" + SECRETS["query"], "202 Accepted"),
    "rate limited": reply(b"", "429 Slow", Retry_After="99999"),
    "echo": echo,
    "echo in JSON": echo_in_json,
}


def leaks(text):
    return sorted({trace for trace in TRACES if trace in text})
