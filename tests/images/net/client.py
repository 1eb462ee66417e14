"""What an agent may try with its network. Run with names of tries; prints a JSON object of their results."""

import json
import os
import resource
import socket
import ssl
import struct
import sys
import time
import urllib.error
import urllib.request
from urllib.parse import urlsplit

PATIENCE = 25


def proxy() -> socket.socket:
    address = urlsplit(os.environ["HTTPS_PROXY"])
    return socket.create_connection((address.hostname, address.port), timeout=PATIENCE)


def status(answer: bytes) -> str:
    words = answer.split(b"\r\n")[0].split(b" ")
    return words[1].decode() if len(words) > 1 else "closed"


def ask(head: str) -> str:
    """The status of the proxy's answer to a request."""
    with proxy() as connection:
        connection.sendall(head.encode("latin-1") + b"\r\n\r\n")
        return status(connection.recv(4096))


def tunnel(target: str, headers: str = "") -> tuple[socket.socket, str]:
    connection = proxy()
    connection.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{headers}\r\n".encode("latin-1"))
    answer = b""
    while b"\r\n\r\n" not in answer:
        chunk = connection.recv(4096)
        if not chunk:
            break
        answer += chunk
    return connection, status(answer)


def connect(target: str, headers: str = "") -> str:
    connection, found = tunnel(target, headers)
    connection.close()
    return found


def tls(target: str, server_name: str | None, host: str = "api.example.com", protocols: int = 0) -> str:
    """What the server at the end of a tunnel says, or why nothing is said."""
    connection, found = tunnel(target)
    if found != "200":
        return found
    context = ssl.create_default_context(cafile=os.path.join(os.environ["RB_REPO"], "ca.pem"))
    context.check_hostname = False
    if protocols:
        context.set_alpn_protocols([f"protocol-{number:04}-{'x' * 60}" for number in range(protocols)])
    try:
        with context.wrap_socket(connection, server_hostname=server_name) as secure:
            secure.sendall(f"GET / HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
            answer = b""
            while chunk := secure.recv(4096):
                answer += chunk
            return answer.rpartition(b"\r\n")[2].decode()
    except OSError as error:
        return f"cut: {type(error).__name__}"


def raw(target: str, sent: bytes) -> str:
    connection, found = tunnel(target)
    if found != "200":
        return found
    connection.sendall(sent)
    try:
        answer = connection.recv(4096)
    except OSError as error:
        return f"cut: {type(error).__name__}"
    return f"answered: {answer[:60]!r}" if answer else "cut"


def hello(server_name: bytes) -> bytes:
    """A TLS ClientHello with any bytes for a server name."""
    name = struct.pack("!HBH", len(server_name) + 3, 0, len(server_name)) + server_name
    extensions = struct.pack("!HH", 0, len(name)) + name
    body = b"\x03\x03" + bytes(32) + b"\0" + struct.pack("!HH", 2, 0xC02F) + b"\x01\0"
    body += struct.pack("!H", len(extensions)) + extensions
    message = b"\x01" + struct.pack("!I", len(body))[1:] + body
    return b"\x16\x03\x01" + struct.pack("!H", len(message)) + message


def direct(address: str, port: int = 443) -> str:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(2)
        try:
            connection.connect((address, port))
        except OSError:
            return "unreachable"
        return "connected"


def crowd(count: int, seconds: float) -> str:
    """Connections to the proxy that ask for nothing, held for a while."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    held = []
    try:
        for _ in range(count):
            held.append(proxy())
    except OSError as error:
        print(f"no more after {len(held)}: {error}", file=sys.stderr)
    time.sleep(seconds)
    open_ = 0
    for each in held:
        each.setblocking(False)
        try:
            open_ += each.recv(1) != b""
        except BlockingIOError:
            open_ += 1
        except OSError:
            pass
    return f"{open_} of {len(held)} are open"


def resolve(name: str) -> str:
    try:
        return str(socket.getaddrinfo(name, 443))
    except socket.gaierror:
        return "unknown"


def dns(server: str, name: str) -> str:
    """Ask a name server by hand."""
    question = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0\0\x01\0\x01"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(2)
        try:
            asking.connect((server, 53))
            asking.send(b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0" + question)
            answer = asking.recv(512)
        except OSError:
            return "no answer"
    return f"{answer[7]} answers"


def fetch(url: str) -> str:
    """As a common library does it, following redirects and the proxy variables."""
    context = ssl.create_default_context(cafile=os.path.join(os.environ["RB_REPO"], "ca.pem"))
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(url, timeout=PATIENCE) as answer:
            return str(answer.read().decode())
    except (OSError, urllib.error.URLError) as error:
        return f"failed: {error}"


def raw_socket() -> str:
    try:
        socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()
    except PermissionError:
        return "not permitted"
    return "opened"


if __name__ == "__main__":
    results = {}
    for tried in json.loads(sys.argv[1]):
        name, call, *arguments = tried
        decoded = [bytes.fromhex(each[4:]) if str(each).startswith("hex:") else each for each in arguments]
        try:
            results[name] = globals()[call](*decoded)
        except (OSError, ValueError) as error:
            results[name] = f"{type(error).__name__}: {error}"
    print(json.dumps(results))
