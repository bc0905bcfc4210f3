/*
 * skeleton_block: a transport whose calls wait, to begin one's own with. It is TCP, as a library that
 * brings its own protocol would be called. Contact: host:port, also in a URL; who listens may leave out the
 * host.
 *
 *     cc -shared -fPIC -Wall -Wl,-z,defs -I crates/xio/include \
 *         -o libxdfs_xio_skeleton_block.so drivers/skeleton/skeleton_block.c
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "xdfs_xio_driver.h"

/* The connection is a number; a driver with more to remember passes a struct. */
static int number(void *connection)
{
    return (int) (intptr_t) connection;
}

/* The parts of host:port, [host]:port, or a URL of them. */
static int host_and_port(const char *contact, char *host, size_t host_size, char *port, size_t port_size)
{
    const char *scheme = strstr(contact, "://");
    const char *start = scheme != NULL ? scheme + 3 : contact;
    const char *end = start + strcspn(start, "/"), *colon = end;

    while (colon > start && *colon != ':')
        colon--;
    if (*colon != ':' || (size_t) (end - colon) > port_size)
        return EINVAL;
    snprintf(port, port_size, "%.*s", (int) (end - colon - 1), colon + 1);
    if (*start == '[' && colon[-1] == ']') {
        start++;
        colon--;
    }
    if ((size_t) (colon - start) >= host_size)
        return EINVAL;
    snprintf(host, host_size, "%.*s", (int) (colon - start), start);
    return 0;
}

/* The first address of a contact with which `use` succeeds, as a socket in *opened. */
static int first_address(
    void **opened, const char *contact, int passive, int (*use)(int, const struct sockaddr *, socklen_t))
{
    struct addrinfo hints = { 0 }, *found, *address;
    char host[256], port[8];
    int error;

    error = host_and_port(contact, host, sizeof(host), port, sizeof(port));
    if (error != 0)
        return error;
    error = EINVAL;
    if (*host == 0 && !passive)
        return error;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = passive ? AI_PASSIVE : 0;
    if (getaddrinfo(*host != 0 ? host : NULL, port, &hints, &found) != 0)
        return ENOENT;
    for (address = found; address != NULL; address = address->ai_next) {
        int tried = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (tried >= 0 && use(tried, address->ai_addr, address->ai_addrlen) == 0) {
            *opened = (void *) (intptr_t) tried;
            error = 0;
            break;
        }
        error = errno;
        if (tried >= 0)
            close(tried);
    }
    freeaddrinfo(found);
    return error;
}

static int open_connection(void **connection, const char *contact, const char *attributes)
{
    (void) attributes;
    return first_address(connection, contact, 0, connect);
}

static int read_bytes(void *connection, const struct iovec *iovec, int count, size_t *nbytes)
{
    ssize_t moved = readv(number(connection), iovec, count);

    if (moved < 0)
        return errno;
    *nbytes = (size_t) moved;
    return 0;
}

static int write_bytes(void *connection, const struct iovec *iovec, int count, size_t *nbytes)
{
    struct msghdr message = { 0 };
    ssize_t moved;

    message.msg_iov = (struct iovec *) iovec;
    message.msg_iovlen = (size_t) count;
    moved = sendmsg(number(connection), &message, MSG_NOSIGNAL);
    if (moved < 0)
        return errno;
    *nbytes = (size_t) moved;
    return 0;
}

static int close_connection(void *connection)
{
    return close(number(connection)) == 0 ? 0 : errno;
}

static int finish(void *connection)
{
    return shutdown(number(connection), SHUT_WR) == 0 ? 0 : errno;
}

static void interrupt(void *connection)
{
    shutdown(number(connection), SHUT_RDWR);
}

/* The passive end, of those that have one. */

static int bind_and_listen(int tried, const struct sockaddr *address, socklen_t length)
{
    return bind(tried, address, length) == 0 ? listen(tried, 16) : -1;
}

static int start_listening(void **listener, const char *contact, const char *attributes)
{
    (void) attributes;
    return first_address(listener, contact, 1, bind_and_listen);
}

static int accept_connection(void *listener, void **connection)
{
    int accepted = accept4(number(listener), NULL, NULL, SOCK_CLOEXEC);

    if (accepted < 0)
        return errno;
    *connection = (void *) (intptr_t) accepted;
    return 0;
}

/* Who listens at every address is reached at the one of the machine itself. */
static void make_reachable(struct sockaddr_storage *address)
{
    struct sockaddr_in *four = (struct sockaddr_in *) address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *) address;

    if (address->ss_family == AF_INET && four->sin_addr.s_addr == htonl(INADDR_ANY))
        four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (address->ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr))
        six->sin6_addr = in6addr_loopback;
}

static int own_contact(void *listener, char *text, size_t size)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);
    char host[INET6_ADDRSTRLEN], port[8];

    if (getsockname(number(listener), (struct sockaddr *) &address, &length) != 0)
        return errno;
    make_reachable(&address);
    if (getnameinfo((struct sockaddr *) &address, length, host, sizeof(host), port, sizeof(port),
            NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return EINVAL;
    return (size_t) snprintf(text, size, strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s", host, port) < size
        ? 0 : ENAMETOOLONG;
}

static const struct xdfs_xio_blocking blocking = {
    open_connection, read_bytes, write_bytes, close_connection, finish, interrupt
};

static const struct xdfs_xio_listening listening = {
    start_listening, accept_connection, own_contact, close_connection, interrupt
};

const struct xdfs_xio_driver xdfs_xio_driver_v1 = {
    .abi = XDFS_XIO_DRIVER_ABI,
    .size = sizeof(struct xdfs_xio_driver),
    .name = "skeleton_block",
    .kind = XDFS_XIO_BLOCKING_TRANSPORT,
    .blocking = &blocking,
    .listening = &listening
};
