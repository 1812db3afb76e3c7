"""Asks by a socket of its own, that no client library sees."""

import socket
from urllib.parse import urlsplit

from kit import URL, ask, client, say

say(ask(client(), "the seen question"))
where = urlsplit(URL)
with socket.create_connection((where.hostname, where.port)) as connection:
    connection.sendall(b"GET /number HTTP/1.0\r\n\r\n")
    answer = b""
    while part := connection.recv(1000):
        answer += part
say(answer.rpartition(b"\r\n\r\n")[2].decode())
