/*
 * skeleton_block: a transport whose calls wait, to begin one's own with. It is TCP, as a library that
 * brings its own protocol would be called. Contact: host:port.
 *
 *     cc -shared -fPIC -I crates/xio/include -o libxdfs_xio_skeleton_block.so drivers/skeleton/skeleton_block.c
 */
#include <errno.h>
#include <netdb.h>
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

static int open_connection(void **connection, const char *contact, const char *attributes)
{
    struct addrinfo hints = { 0 }, *found, *address;
    const char *colon = strrchr(contact, ':');
    char host[256];
    int error = EINVAL;

    (void) attributes;
    if (colon == NULL || (size_t) (colon - contact) >= sizeof(host))
        return EINVAL;
    snprintf(host, sizeof(host), "%.*s", (int) (colon - contact), contact);
    hints.ai_socktype = SOCK_STREAM;
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
        return ENOENT;
    for (address = found; address != NULL; address = address->ai_next) {
        int opened = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (opened >= 0 && connect(opened, address->ai_addr, address->ai_addrlen) == 0) {
            *connection = (void *) (intptr_t) opened;
            error = 0;
            break;
        }
        error = errno;
        if (opened >= 0)
            close(opened);
    }
    freeaddrinfo(found);
    return error;
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

static const struct xdfs_xio_blocking blocking = {
    open_connection, read_bytes, write_bytes, close_connection, finish, interrupt
};

const struct xdfs_xio_driver xdfs_xio_driver_v1 = {
    XDFS_XIO_DRIVER_ABI, sizeof(struct xdfs_xio_driver), "skeleton_block", XDFS_XIO_BLOCKING_TRANSPORT, NULL, &blocking,
    NULL
};
