"""A person's end of a connection: one line in, the reply as text and its round trip out."""

import socket

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.errno cimport EBADMSG, EINVAL
from libc.stdlib cimport calloc, free
from libc.string cimport memset
from pyx cimport core
from pyx.settings cimport Settings

REPLY_LIMIT = 64 << 20


class DialogueError(RuntimeError):
    """A request that got no reply; the message is one line for the user. The next request connects anew."""


class NotUnderstood(ValueError):
    """The protocol has no request that the line could mean."""


cdef class Dialogue:
    """One client of a server, ours or anybody's, over the protocol of a service.

    Parameters
    ----------
    service : str
        Name in the registry.
    options : dict of str to str
        Settings of the service; missing ones get their defaults. connection=per_request makes a connection for each
        request.
    host, port : str, int
        An IPv4 address, and the port.
    timeout : float
        Seconds to connect, and to wait for each piece of a reply.

    Attributes
    ----------
    right : bool
        Whether the last reply was one that a load would count as right.

    Raises
    ------
    ValueError
        The service is not known or its settings cannot be.
    DialogueError
        The server cannot be reached.
    """

    cdef const core.service_ops *ops
    cdef Settings settings
    cdef void *client
    cdef void *session
    cdef core.buffer out
    cdef bint opened
    cdef object peer, host, port, timeout, once
    cdef readonly bint right

    def __cinit__(self, str service, dict options, str host, int port, double timeout=10.0):
        cdef char message[512]
        core.buffer_init(&self.out, 64 << 20)
        self.ops = core.registry_service(service.encode())
        if self.ops == NULL:
            raise ValueError(f"{service}: no such service")
        self.settings = Settings({**options, "outside": "yes"})
        self.settings.fill(self.ops.knobs)
        self.settings.fill(core.server_common_knobs)
        self.host, self.port, self.timeout = host, port, timeout
        self.once = options.get("connection") == "per_request"
        if self.ops.client_check != NULL and self.ops.client_check(self.settings.config, message, sizeof(message)):
            raise ValueError(message.decode("utf-8", "replace"))
        self.session = calloc(1, self.ops.client_session_size + 1)
        rc = self.ops.client_create(self.settings.config, 1, &self.client)
        if rc or self.session == NULL:
            raise ValueError(f"{service}: cannot be asked with these settings (error {-rc})")
        self.connect()

    def __dealloc__(self):
        self.close()
        if self.client != NULL:
            self.ops.client_destroy(self.client)
        free(self.session)
        core.buffer_free(&self.out)

    cpdef connect(self):
        """Connects, if there is no connection."""
        cdef core.sockaddr_in address
        if self.opened:
            return
        try:
            self.peer = socket.create_connection((self.host, self.port), timeout=self.timeout)
        except OSError as error:
            raise DialogueError(f"{self.host}:{self.port}: {_reason(error)}") from error
        self.peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        memset(self.session, 0, self.ops.client_session_size)
        rc = self.ops.client_open(self.client, self.session)
        if rc:
            raise MemoryError()
        self.opened = True
        name, port = self.peer.getsockname()
        if self.ops.client_address != NULL and not core.sock_address(name.encode(), port, &address):
            self.ops.client_address(self.client, self.session, &address)

    cpdef close(self):
        """Ends the connection; ask connects again."""
        if not self.opened:
            return
        self.opened = False
        self.peer.close()
        self.ops.client_close(self.client, self.session)

    def ask(self, str line):
        """Sends what the line means and waits for the reply.

        Returns
        -------
        text : str
            The reply, as it came or, where its bytes are not text, in words.
        seconds : float
            From before the request was sent until the reply was complete.

        Raises
        ------
        NotUnderstood
            The line means nothing in this protocol; nothing was sent.
        DialogueError
            The connection failed, or the reply did.
        """
        if self.opened and self._ended():
            self.close()
        self.connect()
        core.buffer_consume(&self.out, core.buffer_length(&self.out))
        rc = self.ops.say(self.client, self.session, line.encode("utf-8", "surrogateescape"), &self.out)
        if rc == -EINVAL:
            raise NotUnderstood(line)
        if rc:
            raise DialogueError(f"the request cannot be written (error {-rc})")
        start = core.clock_now()
        try:
            reply = self._exchange()
        except OSError as error:
            self.close()
            raise DialogueError(f"{self.host}:{self.port}: {_reason(error)}") from error
        except DialogueError:
            self.close()
            raise
        seconds = (core.clock_now() - start) * 1e-9
        text = self._show(reply)
        if self.once or (self.ops.ends != NULL and self.ops.ends(self.client, self.session)):
            self.close()
        return text, seconds

    cdef bint _ended(self):
        """Whether the server has closed the connection since the last reply; one may, when nothing is asked for long."""
        self.peer.settimeout(0)
        try:
            return not self.peer.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
        finally:
            self.peer.settimeout(self.timeout)

    cdef bytes _exchange(self):
        """All bytes of the reply."""
        cdef size_t used
        cdef const unsigned char[::1] view
        whole, taken, rc = bytearray(), 0, 0
        while rc == 0:
            length = core.buffer_length(&self.out)
            if length:
                self.peer.sendall(PyBytes_FromStringAndSize(core.buffer_data(&self.out), length))
                core.buffer_consume(&self.out, length)
            got = self.peer.recv(65536)
            if not got:
                rc = self.ops.finish(self.client, self.session) if self.ops.finish != NULL else 0
                if rc:
                    break
                when = "in the middle of its reply" if whole else "without a reply"
                raise DialogueError(f"{self.host}:{self.port}: the server closed the connection {when}")
            whole += got
            if len(whole) > REPLY_LIMIT:
                raise DialogueError(f"the reply is longer than {REPLY_LIMIT} bytes")
            used = 1
            while rc == 0 and used and taken < len(whole):
                rest = bytes(memoryview(whole)[taken:])
                view = rest
                used = 0
                rc = self.ops.answer(self.client, self.session, <const char *>&view[0], len(rest), &used, &self.out)
                taken += used
        if rc < 0 and rc != -EBADMSG:
            raise DialogueError(f"the reply is not of this protocol; it begins with {bytes(whole[:64])!r}")
        if taken < len(whole):
            raise DialogueError(f"{len(whole) - taken} bytes came behind the reply, the first {bytes(whole[taken:][:64])!r}")
        self.right = rc == 1
        return bytes(whole)

    cdef str _show(self, bytes reply):
        cdef core.buffer text
        cdef const unsigned char *at = reply
        if self.ops.show == NULL:
            return reply.decode("utf-8", "replace")
        core.buffer_init(&text, 64 << 20)
        try:
            if self.ops.show(self.client, self.session, <const char *>at, len(reply), &text):
                raise DialogueError("the reply is too long to be shown")
            shown = PyBytes_FromStringAndSize(core.buffer_data(&text), core.buffer_length(&text))
            return shown.decode("utf-8", "replace")
        finally:
            core.buffer_free(&text)


def _reason(error):
    """What the system said, in a few words."""
    if isinstance(error, TimeoutError):
        return "no answer within the time-out"
    return (error.strerror or str(error)).lower()
