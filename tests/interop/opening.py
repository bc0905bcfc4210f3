"""How the minimal client gets in: TLS 1.3 with a certificate, the server's key compared with a pin, and a login that is
bound to the connection (docs/protocol.md, section 3). pyOpenSSL, because Python's own `ssl` has no exporter."""
import base64
import hashlib
import os

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key
from minimal import ACCEPT, CONTROL_MAX, HELLO, OPEN, Failed, answer, encode, frame, message, preface, write_int
from OpenSSL import SSL


class Tls:
    """TLS 1.3 on a channel that leaves it again (section 3), fed with one record at a time."""

    def __init__(self, channel):
        context, self.channel, self.data, self.wants = SSL.Context(SSL.TLS_CLIENT_METHOD), channel, b"", SSL.WantReadError
        context.set_min_proto_version(SSL.TLS1_3_VERSION)
        context.set_alpn_protos([b"xdfs/1"])
        self.tls, self.over = SSL.Connection(context, None), SSL.ZeroReturnError
        self.tls.set_connect_state()

    def hello(self):
        """The client's first flight, before anything is read."""
        try:
            self.tls.do_handshake()
        except self.wants:
            self.channel.socket.sendall(self.tls.bio_read(1 << 20))

    def step(self, action):
        while True:
            try:
                result, more = action(), False
            except self.wants:
                result, more = None, True
            try:
                self.channel.socket.sendall(self.tls.bio_read(1 << 20))
            except self.wants:
                pass
            if not more:
                return result
            head = self.channel.exactly(5)
            self.tls.bio_write(head + self.channel.exactly(int.from_bytes(head[3:], "big")))

    def exactly(self, count):
        while len(self.data) < count:
            self.data += self.step(lambda: self.tls.recv(CONTROL_MAX))
        taken, self.data = self.data[:count], self.data[count:]
        return taken

    def leave(self):
        self.tls.bio_write(self.channel.exactly(24))
        try:
            self.tls.recv(1)
            raise Failed("data where the end of TLS is due")  # [P-49]
        except self.over:
            self.step(lambda: self.tls.shutdown() or True)


def log_in(user, path, binding, pin, prefaces):
    with open(path, "rb") as file:
        key = load_ssh_private_key(file.read(), None)
    public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    said = b"xdfs login\0\1" + binding + pin + prefaces + public + write_int(len(user)) + user
    return encode("login 1", {"user": user, "key": public, "signature": key.sign(said)})


def enter(channel, channels, level, pin, user, key):
    """Opens a session on a connection: what the server granted, and the join secret."""
    channel.socket.sendall(preface(1))  # [P-5]
    tls, prefaces = Tls(channel), preface(1)
    tls.hello()
    prefaces += answer(channel, 1)
    tls.step(tls.tls.do_handshake)
    host = tls.tls.get_peer_certificate().to_cryptography().public_key()
    host = hashlib.sha256(host.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()
    shown = "SHA256:" + base64.b64encode(host).decode().rstrip("=")
    if pin != shown:
        raise Failed(f"the server's key is {shown}, not {pin}")  # [P-51]
    if message(tls, HELLO)["prefaces"] != prefaces:
        raise Failed("the opening bytes were altered on the way")  # [P-52]
    export = lambda label, context: tls.tls.export_keying_material(label, 32, context)
    binding = export(b"EXPORTER-xdfs-login-v1", b"")
    login = log_in(user.encode(), key, binding, host, prefaces) if user else b""
    said = frame(OPEN, prefaces=prefaces, channels=channels, pipelines=1, level=level, label=os.urandom(16),
                 suites=b"\1", login=int(bool(user)), credentials=login)
    tls.step(lambda: tls.tls.sendall(said) or True)
    accept = message(tls, ACCEPT)
    if accept["prefaces"] != prefaces:
        raise Failed("the opening bytes were altered on the way")  # [P-6]
    join_secret = export(b"EXPORTER-xdfs-join-v1", accept["session"])
    tls.leave()
    return accept, join_secret
