/*
 * uninterrupted: skeleton_block without interrupt, so that nobody but the peer gets its read to return. Before each
 * read and before its close it says so to the peer: 'r', 'c'.
 */
#define xdfs_xio_driver_v1 the_driver_with_interrupt
#include "../../../../drivers/skeleton/skeleton_block.c"
#undef xdfs_xio_driver_v1

static int say_and_read(void *connection, const struct iovec *iovec, int count, size_t *nbytes)
{
    (void) send(number(connection), "r", 1, MSG_NOSIGNAL);
    return read_bytes(connection, iovec, count, nbytes);
}

static int say_and_close(void *connection)
{
    (void) send(number(connection), "c", 1, MSG_NOSIGNAL);
    return close_connection(connection);
}

static const struct xdfs_xio_blocking uninterrupted = {
    open_connection, say_and_read, write_bytes, say_and_close, NULL, NULL
};

const struct xdfs_xio_driver xdfs_xio_driver_v1 = {
    .abi = XDFS_XIO_DRIVER_ABI,
    .size = sizeof(struct xdfs_xio_driver),
    .name = "uninterrupted",
    .kind = XDFS_XIO_BLOCKING_TRANSPORT,
    .blocking = &uninterrupted
};
