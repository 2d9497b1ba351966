"""Raw bytes on a connection: slow, endless, torn or ambiguous requests end, and others go on."""

import json
import socket
import time

import pytest

from support.service import running

SETTINGS = "body_seconds = 0.4\nconnections = 12\n[model]\ncells = 65536\n"
HEALTH = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with running(tmp_path_factory.mktemp("connections"), SETTINGS) as service:
        yield service


@pytest.fixture
def connect(service):
    opened = []

    def new():
        opened.append(socket.create_connection(("127.0.0.1", service.port), timeout=30))
        return opened[-1]

    yield new
    for each in opened:
        each.close()


def post(service, length="content-length: 2", body=b"{}", key="ingest"):
    head = f"authorization: Bearer {service.keys[key]}\r\ncontent-type: application/json"
    return f"POST /events HTTP/1.1\r\nhost: x\r\n{head}\r\n{length}\r\n\r\n".encode() + body


def everything(link):
    """All bytes until the other side closes."""
    data = b""
    try:
        while part := link.recv(65536):
            data += part
    except ConnectionResetError:
        pass
    return data


def statuses(data):
    """Statuses of the answers in bytes, in order; errors are problem+json."""
    found = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        size = int(fields[b"content-length"])
        found.append(int(head[9:12]))
        if found[-1] >= 400:
            assert fields[b"content-type"] == b"application/problem+json"
            assert json.loads(data[:size])["status"] == found[-1]
        data = data[size:]
    return found


def test_a_connection_that_sends_nothing_is_closed(connect):
    assert everything(connect()) == b""


@pytest.mark.parametrize("begin", [b"GET /healthz HTTP/1.1\r\nhost", b"\r\n", b"P"])
def test_a_head_that_does_not_end_is_given_up(connect, begin):
    link = connect()
    link.sendall(begin)
    assert statuses(everything(link)) == [408]


def test_a_second_head_that_does_not_end_is_given_up_too(connect):
    link = connect()
    link.sendall(HEALTH + b"GET /heal")
    assert statuses(everything(link)) == [200, 408]


@pytest.mark.parametrize("length", ["content-length: 100", "transfer-encoding: chunked"])
def test_a_body_of_which_nothing_comes_is_given_up(service, connect, length):
    link = connect()
    link.sendall(post(service, length, b""))
    assert statuses(everything(link)) == [408]


def test_drops_of_a_body_that_nobody_reads_do_not_hold_the_connection(connect):
    link = connect()
    link.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n")
    begin = time.monotonic()
    try:
        while time.monotonic() - begin < 30:
            link.sendall(b"x")
            time.sleep(0.05)
    except OSError:
        return
    raise AssertionError("the connection was not closed")


def test_a_head_without_end_is_refused(connect):
    link = connect()
    link.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n")
    data = b""
    try:
        for k in range(40_000):
            link.sendall(b"x-%d: " % k + b"y" * 100 + b"\r\n")
        data = everything(link)
    except OSError:
        return  # it was closed while we were sending
    assert statuses(data) == [431]


def test_more_connections_than_allowed_get_503_and_the_next_ones_are_served(service, connect):
    links = [connect() for _ in range(30)]
    answers = []
    for link in links:
        try:
            link.sendall(HEALTH)
            answers.append(statuses(link.recv(65536)))
        except OSError:  # refused, and closed before we sent
            answers.append([503])
    assert answers.count([200]) <= 12
    assert [503] in answers
    for link in links:
        link.close()

    def served():
        with service.client() as client:
            return client.get("/healthz").status_code == 200

    service.until(served)
    with service.client("admin") as client:
        assert "sfumato_connections_refused_total" in client.get("/metrics").text


def test_pipelined_requests_are_answered_in_order(service, connect):
    link = connect()
    event = b'{"user": "u", "item": "i"}'
    sent = HEALTH + post(service, f"content-length: {len(event)}", event)
    bad = b"GET /nowhere HTTP/1.1\r\nhost: x\r\n\r\n"
    link.sendall(sent + bad + HEALTH.replace(b"host: x", b"host: x\r\nconnection: close"))
    assert statuses(everything(link)) == [200, 200, 404, 200]


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",  # TLS
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET \xff HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET http:// HTTP/1.1\r\nhost: x\r\n\r\n",
        b"CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: x\r\nbad header\r\n\r\n",
        b"POST /events HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}",
        b"POST /events HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST /events HTTP/1.1\r\ncontent-length: " + b"9" * 5000 + b"\r\n\r\n",
        b"POST /events HTTP/1.1\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n",
    ],
)
def test_what_is_no_request_or_has_two_meanings_gets_4xx(service, connect, data):
    link = connect()
    link.sendall(data)
    found = statuses(everything(link))
    assert found, data
    assert all(400 <= status < 500 for status in found), found
    with service.client() as client:
        assert client.get("/healthz").status_code == 200


def test_head_has_no_body_and_options_is_no_method_unless_origins_are_named(service, connect):
    link = connect()
    link.sendall(b"HEAD /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    data = everything(link)
    assert data.startswith(b"HTTP/1.1 200")
    assert data.endswith(b"\r\n\r\n")
    with service.client("read") as client:
        assert client.options("/budget").status_code == 405
        page = client.get("/budget", headers={"origin": "https://any.example"})
        assert not [name for name in page.headers if name.startswith("access-control")]
        assert client.head("/budget").status_code == 200
        assert client.head("/recommendations/u").content == b""
    with service.client() as client:
        assert client.head("/budget").status_code == 401
