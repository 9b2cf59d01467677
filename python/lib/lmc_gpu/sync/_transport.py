"""Where versions lie: a directory that both sides see, or behind HTTP."""

import hmac
import http.client
import http.server
import os
import re
import threading
import urllib.error
import urllib.request

from .._errors import ArgumentError, LimitError, MissingFileError, StorageError

_NAME = re.compile(r"latest\.json|v\d{8,}\.(?:json|full|delta)")


def _checked(name):
    if not _NAME.fullmatch(name):
        raise ArgumentError(f"{name!r} is no file of a publisher")
    return name


class Directory:
    """A directory, best one in memory (tmpfs) or on a disk that all machines see."""

    def __init__(self, path, create=False):
        self.path = os.fspath(path)
        if create:
            os.makedirs(self.path, exist_ok=True)

    def get(self, name, most=None):
        """The bytes of a file, `None` where there is none."""
        try:
            with open(os.path.join(self.path, _checked(name)), "rb") as file:
                if most is not None and os.fstat(file.fileno()).st_size > most:
                    raise LimitError(f"{name} is longer than {most} bytes")
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"{name} cannot be read: {error}") from error

    def put(self, name, data):
        """Writes a file, which appears whole or not at all."""
        path = os.path.join(self.path, _checked(name))
        try:
            with open(path + ".tmp", "wb") as file:
                file.write(data)
            os.replace(path + ".tmp", path)
        except OSError as error:
            try:
                os.remove(path + ".tmp")
            except OSError:
                pass
            raise StorageError(f"{path} cannot be written: {error}") from error

    def remove(self, name):
        """Removes a file, if it is there."""
        try:
            os.remove(os.path.join(self.path, _checked(name)))
        except FileNotFoundError:
            pass


class Web:
    """What a `Server` serves, or any other server of such a directory. For subscribers only.

    Args:
        url: where the directory is.
        token: what the server wants to be shown.
        timeout: seconds to wait for an answer.
    """

    def __init__(self, url, token=None, timeout=30.0):
        self.url = url.rstrip("/")
        self.token = token
        self.timeout = timeout

    def get(self, name, most=None):
        """The bytes of a file, `None` where there is none."""
        request = urllib.request.Request(f"{self.url}/{_checked(name)}")
        if self.token is not None:
            request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as answer:
                data = answer.read() if most is None else answer.read(most + 1)
                stated = answer.headers.get("Content-Length")
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise StorageError(f"{self.url}/{name}: {error}") from error
        except (OSError, http.client.HTTPException) as error:
            raise StorageError(f"{self.url}/{name}: {error}") from error
        if most is not None and len(data) > most:
            raise LimitError(f"{name} is longer than {most} bytes")
        if stated is not None and int(stated) != len(data):
            raise StorageError(f"{self.url}/{name} broke off after {len(data)} of {stated} bytes")
        return data


class Server:
    """Serves the directory of a publisher by HTTP, in threads of this process.

    Args:
        path: the directory.
        host, port: where to listen; by default on this machine only, at any free port.
        token: what clients have to show, where it is set. Traffic is not encrypted.

    >>> import tempfile
    >>> from lmc_gpu.sync import Publisher, Server, Subscriber
    >>> import numpy
    >>> path = tempfile.mkdtemp()
    >>> _ = Publisher(path).publish(1, {"w": numpy.ones(3, "float32")})
    >>> with Server(path) as server:
    ...     subscriber = Subscriber(server.url)
    ...     subscriber.pull().step, subscriber.arrays()["w"].tolist()
    (1, [1.0, 1.0, 1.0])
    """

    def __init__(self, path, host="127.0.0.1", port=0, token=None):
        directory = Directory(path)
        if not os.path.isdir(directory.path):
            raise MissingFileError(f"{directory.path} is no directory")

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                shown = self.headers.get("Authorization", "")
                if token is not None and not hmac.compare_digest(
                    shown.encode(), f"Bearer {token}".encode()
                ):
                    return self.answer(401, b"")
                name = self.path.lstrip("/")
                data = directory.get(name) if _NAME.fullmatch(name) else None
                return self.answer(404 if data is None else 200, data or b"")

            def answer(self, code, data):
                self.send_response(code)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args):
                pass

        self._server = http.server.ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://{host}:{self._server.server_address[1]}"

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self.close()

    def close(self):
        """Stops listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def transport_of(place, create=False):
    """The transport that a path or URL means."""
    if isinstance(place, str) and re.match(r"https?://", place):
        return Web(place)
    if isinstance(place, (str, os.PathLike)):
        return Directory(place, create)
    return place
