/* A blocking transport that gives its attributes back: what is read is the text that its open got. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "xdfs_xio_driver.h"

struct connection {
    char *text;
    size_t at;
};

static int open_connection(void **connection, const char *contact, const char *attributes)
{
    struct connection *opened;

    (void) contact;
    if (strstr(attributes, "wrong") != NULL)
        return EINVAL;
    opened = calloc(1, sizeof(*opened));
    if (opened == NULL)
        return ENOMEM;
    opened->text = strdup(attributes);
    *connection = opened;
    return opened->text != NULL ? 0 : ENOMEM;
}

static int read_bytes(void *connection, const struct iovec *iovec, int count, size_t *nbytes)
{
    struct connection *opened = connection;
    size_t left = strlen(opened->text) - opened->at;

    *nbytes = count > 0 && iovec[0].iov_len < left ? iovec[0].iov_len : left;
    memcpy(iovec[0].iov_base, opened->text + opened->at, *nbytes);
    opened->at += *nbytes;
    return 0;
}

static int write_bytes(void *connection, const struct iovec *iovec, int count, size_t *nbytes)
{
    (void) connection;
    (void) count;
    *nbytes = iovec[0].iov_len;
    return 0;
}

static int close_connection(void *connection)
{
    struct connection *opened = connection;

    free(opened->text);
    free(opened);
    return 0;
}

static const struct xdfs_xio_blocking blocking = {
    .open = open_connection, .read = read_bytes, .write = write_bytes, .close = close_connection
};

static const char *const names[] = { "first", "second", NULL };

const struct xdfs_xio_driver xdfs_xio_driver_v1 = {
    .abi = XDFS_XIO_DRIVER_ABI,
    .size = sizeof(struct xdfs_xio_driver),
    .name = "attributes",
    .kind = XDFS_XIO_BLOCKING_TRANSPORT,
    .attributes = names,
    .blocking = &blocking
};
