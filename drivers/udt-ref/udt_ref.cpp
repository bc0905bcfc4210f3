/*
 * udt_ref: UDT, the transport over UDP, by its reference implementation (libudt, Debian's libudt-dev). It is built
 * apart from xdfs and loaded by name:
 *
 *     c++ -shared -fPIC -I crates/xio/include -o libxdfs_xio_udt_ref.so drivers/udt-ref/udt_ref.cpp \
 *         -Wl,--wrap=close,--wrap=pthread_join,--exclude-libs,ALL -l:libudt.a
 *
 * Contact: host:port, also in a URL; who listens may leave out the host. UDT cannot close one direction alone: who
 * finishes has sent everything when the peer has acknowledged it, and the peer reads the end when the connection is
 * closed.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <udt/udt.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <thread>

#include "xdfs_xio_driver.h"

namespace {

/* libudt cannot be told to end a call that waits, so no call waits longer than this. */
const int TURN_MS = 50;

/*
 * libudt forgets a socket whose connection has ended: a second later if everything was read, otherwise after thirty
 * turns of at least a second each, with what was not read. Who finds it gone sooner than this has missed nothing, unless
 * the peer broke the protocol: then libudt forgets it at its next turn.
 */
const std::chrono::seconds KEPT_BY_LIBRARY(20);

struct Connection {
    UDTSOCKET socket;
    std::atomic<bool> interrupted{false};
    /* Of the reader: when the connection was last seen up, and whether all was read of one that has ended. */
    std::chrono::steady_clock::time_point up = std::chrono::steady_clock::now();
    bool is_read = false;

    explicit Connection(UDTSOCKET socket) : socket(socket) {}
};

/* The number of errno.h that tells what UDT's own says. */
int error_of(int code)
{
    if (code == CUDTException::ENOSERVER)
        return ETIMEDOUT;
    if (code == CUDTException::ECONNREJ)
        return ECONNREFUSED;
    if (code == CUDTException::ESECFAIL || code == CUDTException::ECONNSETUP || code == CUDTException::ECONNFAIL)
        return ECONNABORTED;
    if (code == CUDTException::ECONNLOST)
        return ECONNRESET;
    if (code == CUDTException::ENOCONN || code == CUDTException::EINVSOCK)
        return ENOTCONN;
    if (code == CUDTException::ERESOURCE || code == CUDTException::ETHREAD)
        return ENOMEM;
    if (code == CUDTException::ENOBUF)
        return ENOBUFS;
    if (code == CUDTException::ESOCKFAIL || code == CUDTException::EBOUNDSOCK)
        return EADDRINUSE;
    return EIO;
}

int last_error()
{
    return error_of(UDT::getlasterror().getErrorCode());
}

bool is_turn_over(int code)
{
    return code == CUDTException::ETIMEOUT || code == CUDTException::EASYNCRCV || code == CUDTException::EASYNCSND;
}

/* Sockets that listen. Never destroyed, since it is used while the program ends. */
std::mutex &listeners_lock = *new std::mutex;
std::set<UDTSOCKET> &listeners = *new std::set<UDTSOCKET>;

/* The program ends: libudt, whose globals are destroyed, must not be called any more. */
std::atomic<bool> ending{false};
/* Calls of libudt that have not returned. */
std::atomic<int> calls{0};

/* A call of this driver, as long as it lasts. */
class Call {
public:
    Call() { ++calls; }
    ~Call() { --calls; }
    Call(const Call &) = delete;
    Call &operator=(const Call &) = delete;
    /* Whether it may go on. */
    explicit operator bool() const { return !ending; }
};

/* libudt would wait for ever for a thread that is in its accept, and crash with one that calls it later. */
void end_library()
{
    ending = true;
    {
        std::lock_guard<std::mutex> guard(listeners_lock);
        for (UDTSOCKET listener : listeners)
            UDT::close(listener);
    }
    /* Who still sends is not waited for longer; its peer learns by silence. */
    for (int turn = 0; calls > 0 && turn < 2000; turn++)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (calls == 0)
        UDT::cleanup();
}

/* Threads of libudt that use a socket of the kernel. */
const int THREADS_OF_A_SOCKET = 2;

/* A socket that nothing comes to, in place of those that libudt closes. -1 where there is no descriptor for it. */
int idle_socket()
{
    static std::mutex &lock = *new std::mutex;
    static int made = -1;
    std::lock_guard<std::mutex> guard(lock);

    if (made < 0) {
        struct timeval moment = { 0, 1000 };

        made = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (made >= 0)
            setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof(moment));
    }
    return made;
}

/* Whether it is a socket of UDT's that has a port. Threads use no other. */
bool has_port(int descriptor)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);
    char port[8];

    return getsockname(descriptor, reinterpret_cast<struct sockaddr *>(&address), &length) == 0
        && getnameinfo(reinterpret_cast<struct sockaddr *>(&address), length, nullptr, 0, port, sizeof(port),
               NI_NUMERICSERV) == 0
        && std::strcmp(port, "0") != 0;
}

/* The number of a socket that this thread has closed while others may use it, and how many of them it has waited for. */
thread_local int held = -1;
thread_local int ended = 0;

/* Closes a descriptor once no thread of libudt uses its number. */
int close_later(int descriptor, int (*close_now)(int))
{
    if (held >= 0)
        close_now(held);
    held = -1;
    if (!has_port(descriptor) || dup3(idle_socket(), descriptor, O_CLOEXEC) < 0)
        return close_now(descriptor);
    held = descriptor;
    ended = 0;
    return 0;
}

/* A thread of libudt has ended. */
void on_thread_end(int (*close_now)(int))
{
    if (held < 0 || ++ended < THREADS_OF_A_SOCKET)
        return;
    close_now(held);
    held = -1;
}

/* Closes what is left when the program ends: the peer is told. */
void begin_library()
{
    static const int begun = (UDT::startup(), std::atexit(end_library));
    (void) begun;
}

/* "mss=1500;sndbuf=8388608;rcvbuf=8388608": what a socket has before it is used. */
int set_options(UDTSOCKET socket, const std::string &attributes)
{
    size_t start = 0;

    while (start < attributes.size()) {
        size_t end = attributes.find(';', start);
        if (end == std::string::npos)
            end = attributes.size();
        const std::string pair = attributes.substr(start, end - start);
        const size_t equals = pair.find('=');
        const std::string name = pair.substr(0, equals);
        const char *text = equals == std::string::npos ? "" : pair.c_str() + equals + 1;
        char *rest = nullptr;
        errno = 0;
        const long value = std::strtol(text, &rest, 10);
        const bool is_mss = name == "mss";
        const long least = is_mss ? 76 : 65536, most = is_mss ? 65535 : 1L << 30;

        if (rest == text || *rest != 0 || errno != 0 || value < least || value > most)
            return EINVAL;
        int number = static_cast<int>(value);
        const UDTOpt option = is_mss ? UDT_MSS : name == "sndbuf" ? UDT_SNDBUF : UDT_RCVBUF;
        if (UDT::setsockopt(socket, 0, option, &number, sizeof(number)) == UDT::ERROR)
            return EINVAL;
        start = end + 1;
    }
    return 0;
}

/* Sockets do not wait longer than a turn from here on; an accepted one has the listener's other options. */
int set_turns(UDTSOCKET socket)
{
    int turn = TURN_MS;

    return UDT::setsockopt(socket, 0, UDT_SNDTIMEO, &turn, sizeof(turn)) == UDT::ERROR
                || UDT::setsockopt(socket, 0, UDT_RCVTIMEO, &turn, sizeof(turn)) == UDT::ERROR
        ? last_error()
        : 0;
}

/* The host and the port of host:port, [host]:port, or a URL of them. The host may be missing. */
bool split(const std::string &contact, std::string &host, std::string &port)
{
    const size_t scheme = contact.find("://");
    const size_t start = scheme == std::string::npos ? 0 : scheme + 3;
    const std::string authority = contact.substr(start, contact.find('/', start) - start);
    const size_t colon = authority.rfind(':');

    if (colon == std::string::npos)
        return false;
    host = authority.substr(0, colon);
    port = authority.substr(colon + 1);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']')
        host = host.substr(1, host.size() - 2);
    return !port.empty();
}

/* A socket of the first address with which `use` succeeds. */
template <typename Use>
int first_address(const char *contact, const char *attributes, bool passive, UDTSOCKET &socket, Use use)
{
    std::string host, port;
    struct addrinfo hints, *found;
    int error = EINVAL;

    begin_library();
    if (idle_socket() < 0)
        return EMFILE;
    if (!split(contact, host, port) || (host.empty() && !passive))
        return EINVAL;
    std::memset(&hints, 0, sizeof(hints));
    hints.ai_socktype = SOCK_DGRAM;
    hints.ai_flags = passive ? AI_PASSIVE : 0;
    if (getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &found) != 0)
        return ENOENT;
    for (struct addrinfo *address = found; address != nullptr; address = address->ai_next) {
        socket = UDT::socket(address->ai_family, SOCK_STREAM, 0);
        if (socket == UDT::INVALID_SOCK) {
            error = last_error();
            continue;
        }
        error = set_options(socket, attributes);
        if (error == 0 && use(socket, address) == UDT::ERROR)
            error = last_error();
        if (error == 0)
            break;
        UDT::close(socket);
    }
    freeaddrinfo(found);
    return error;
}

int wrapped(UDTSOCKET socket, void **connection)
{
    int error = set_turns(socket);
    Connection *made = error == 0 ? new (std::nothrow) Connection(socket) : nullptr;

    if (made == nullptr) {
        UDT::close(socket);
        return error != 0 ? error : ENOMEM;
    }
    *connection = made;
    return 0;
}

int open_connection(void **connection, const char *contact, const char *attributes)
{
    const Call call;
    if (!call)
        return ECANCELED;
    UDTSOCKET socket = UDT::INVALID_SOCK;
    const int error = first_address(contact, attributes, false, socket, [](UDTSOCKET made, struct addrinfo *address) {
        return UDT::connect(made, address->ai_addr, static_cast<int>(address->ai_addrlen));
    });

    return error != 0 ? error : wrapped(socket, connection);
}

/* The connection has ended, and of what came nothing is left to read. */
bool has_ended_and_is_read(UDTSOCKET socket)
{
    int left = 0, size = sizeof(left);

    return UDT::getsockstate(socket) == BROKEN && UDT::getsockopt(socket, 0, UDT_RCVDATA, &left, &size) != UDT::ERROR
        && left == 0;
}

int read_bytes(void *element, const struct iovec *iovec, int, size_t *nbytes)
{
    const Call call;
    if (!call)
        return ECANCELED;
    Connection *connection = static_cast<Connection *>(element);
    const int length = iovec->iov_len > (1 << 30) ? 1 << 30 : static_cast<int>(iovec->iov_len);

    *nbytes = 0;
    while (!connection->interrupted && !ending) {
        if (connection->is_read)
            return 0;
        if (UDT::getsockstate(connection->socket) == CONNECTED)
            connection->up = std::chrono::steady_clock::now();
        const int moved = UDT::recv(connection->socket, static_cast<char *>(iovec->iov_base), length, 0);
        if (moved > 0) {
            connection->is_read = has_ended_and_is_read(connection->socket);
            *nbytes = static_cast<size_t>(moved);
            return 0;
        }
        const int code = UDT::getlasterror().getErrorCode();
        /* The peer's goodbye and its silence look alike. */
        if (code == CUDTException::ECONNLOST)
            return 0;
        if (code == CUDTException::EINVSOCK)
            return std::chrono::steady_clock::now() - connection->up < KEPT_BY_LIBRARY ? 0 : ECONNRESET;
        if (moved == UDT::ERROR && !is_turn_over(code))
            return error_of(code);
    }
    return ECANCELED;
}

int write_bytes(void *element, const struct iovec *iovec, int, size_t *nbytes)
{
    const Call call;
    if (!call)
        return ECANCELED;
    Connection *connection = static_cast<Connection *>(element);
    const int length = iovec->iov_len > (1 << 30) ? 1 << 30 : static_cast<int>(iovec->iov_len);

    while (!connection->interrupted && !ending) {
        const int moved = UDT::send(connection->socket, static_cast<const char *>(iovec->iov_base), length, 0);
        if (moved > 0) {
            *nbytes = static_cast<size_t>(moved);
            return 0;
        }
        const int code = UDT::getlasterror().getErrorCode();
        if (moved == UDT::ERROR && !is_turn_over(code))
            return error_of(code);
    }
    return ECANCELED;
}

/* Until the peer has acknowledged everything. UDT gives up a peer that is silent, and with it this. */
int finish(void *element)
{
    const Call call;
    if (!call)
        return ECANCELED;
    Connection *connection = static_cast<Connection *>(element);

    while (!connection->interrupted && !ending) {
        int left = 0, size = sizeof(left);
        if (UDT::getsockopt(connection->socket, 0, UDT_SNDDATA, &left, &size) == UDT::ERROR)
            return last_error();
        if (left == 0)
            return 0;
        if (UDT::getsockstate(connection->socket) != CONNECTED)
            return ECONNRESET;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return ECANCELED;
}

int close_connection(void *element)
{
    const Call call;
    if (!call)
        return ECANCELED;
    Connection *connection = static_cast<Connection *>(element);
    const int closed = UDT::close(connection->socket);

    delete connection;
    return closed == UDT::ERROR ? EIO : 0;
}

void interrupt(void *element)
{
    static_cast<Connection *>(element)->interrupted = true;
}

int start_listening(void **listener, const char *contact, const char *attributes)
{
    const Call call;
    if (!call)
        return ECANCELED;
    UDTSOCKET socket = UDT::INVALID_SOCK;
    const int error = first_address(contact, attributes, true, socket, [](UDTSOCKET made, struct addrinfo *address) {
        if (UDT::bind(made, address->ai_addr, static_cast<int>(address->ai_addrlen)) == UDT::ERROR)
            return UDT::ERROR;
        return UDT::listen(made, 16);
    });

    if (error != 0)
        return error;
    const int failed = wrapped(socket, listener);
    std::lock_guard<std::mutex> guard(listeners_lock);
    if (failed == 0)
        listeners.insert(socket);
    return failed;
}

int accept_connection(void *element, void **connection)
{
    const Call call;
    if (!call)
        return ECANCELED;
    /* Asked for the address, libudt crashes where it has forgotten the connection meanwhile. */
    const UDTSOCKET accepted = UDT::accept(static_cast<Connection *>(element)->socket, nullptr, nullptr);

    if (accepted == UDT::INVALID_SOCK)
        return last_error();
    const int error = wrapped(accepted, connection);
    /* libudt has forgotten a connection whose client has gone. */
    return error == ENOTCONN ? ECONNABORTED : error;
}

/* Who listens at every address is reached at the one of the machine itself. */
void make_reachable(struct sockaddr_storage &address)
{
    struct sockaddr_in &four = reinterpret_cast<struct sockaddr_in &>(address);
    struct sockaddr_in6 &six = reinterpret_cast<struct sockaddr_in6 &>(address);

    if (address.ss_family == AF_INET && four.sin_addr.s_addr == htonl(INADDR_ANY))
        four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (address.ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&six.sin6_addr))
        six.sin6_addr = in6addr_loopback;
}

int own_contact(void *element, char *text, size_t size)
{
    const Call call;
    if (!call)
        return ECANCELED;
    struct sockaddr_storage address;
    int length = sizeof(address);
    char host[INET6_ADDRSTRLEN], port[8];

    if (UDT::getsockname(static_cast<Connection *>(element)->socket, reinterpret_cast<struct sockaddr *>(&address), &length)
        == UDT::ERROR)
        return last_error();
    make_reachable(address);
    if (getnameinfo(reinterpret_cast<struct sockaddr *>(&address), static_cast<socklen_t>(length), host, sizeof(host),
            port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV)
        != 0)
        return EINVAL;
    const char *form = std::strchr(host, ':') != nullptr ? "[%s]:%s" : "%s:%s";
    return static_cast<size_t>(std::snprintf(text, size, form, host, port)) < size ? 0 : ENAMETOOLONG;
}

/* A closed listener ends the accept that waits. */
void interrupt_listener(void *element)
{
    Connection *listener = static_cast<Connection *>(element);
    const Call call;

    listener->interrupted = true;
    if (call)
        UDT::close(listener->socket);
}

int close_listener(void *element)
{
    const Call call;
    if (!call)
        return ECANCELED;
    Connection *listener = static_cast<Connection *>(element);
    std::lock_guard<std::mutex> guard(listeners_lock);

    /* The interrupt has closed it already, if one came; doing it again does nothing. */
    listeners.erase(listener->socket);
    UDT::close(listener->socket);
    delete listener;
    return 0;
}

const char *const attributes[] = { "mss", "sndbuf", "rcvbuf", nullptr };
const struct xdfs_xio_blocking blocking = {
    open_connection, read_bytes, write_bytes, close_connection, finish, interrupt
};
const struct xdfs_xio_listening listening = {
    start_listening, accept_connection, own_contact, close_listener, interrupt_listener
};

} // namespace

/*
 * libudt closes a socket of the kernel before it waits for its two threads that use it. By then the number may be another
 * descriptor's of the process, from which they would read and to which they would send. So the number stays taken until
 * both have ended: the linker lets these be called in place of what libudt calls.
 */
extern "C" {
int __real_close(int descriptor);
int __real_pthread_join(pthread_t thread, void **value);

int __wrap_close(int descriptor)
{
    return close_later(descriptor, __real_close);
}

int __wrap_pthread_join(pthread_t thread, void **value)
{
    const int error = __real_pthread_join(thread, value);

    on_thread_end(__real_close);
    return error;
}

extern const struct xdfs_xio_driver xdfs_xio_driver_v1;
const struct xdfs_xio_driver xdfs_xio_driver_v1 = {
    XDFS_XIO_DRIVER_ABI, sizeof(struct xdfs_xio_driver), "udt_ref", XDFS_XIO_BLOCKING_TRANSPORT, attributes, &blocking,
    nullptr, &listening
};
}
