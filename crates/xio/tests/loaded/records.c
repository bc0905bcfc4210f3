/*
 * records: sends bytes in records [length:2][checksum:2][bytes] and checks them where they are received.
 * It keeps bytes in both directions, so it has flush and holds: records:salt=7.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "xdfs_xio_driver.h"

#define HEAD 4
#define RECORD (HEAD + 4096)

struct layer {
    unsigned char out[RECORD]; /* a record that is being sent */
    size_t out_sent, out_end;
    unsigned char in[RECORD]; /* a record that is being received, and then delivered */
    size_t in_end, in_told;
    int in_whole, ended;
    unsigned salt;
};

static unsigned checksum(unsigned salt, const unsigned char *bytes, size_t length)
{
    unsigned low = (1 + salt) % 251, high = 0;

    while (length-- > 0) {
        low = (low + *bytes++) % 251;
        high = (high + low) % 251;
    }
    return high << 8 | low;
}

static int open_layer(void **element, const char *attributes, int accepted)
{
    struct layer *layer;
    long salt = 0;

    (void) accepted;
    if (strncmp(attributes, "salt=", 5) == 0)
        salt = strtol(attributes + 5, NULL, 10);
    if (salt < 0 || salt > 200)
        return EINVAL;
    layer = (struct layer *) calloc(1, sizeof(*layer));
    if (layer == NULL)
        return ENOMEM;
    layer->salt = (unsigned) salt;
    *element = layer;
    return 0;
}

static int flush_record(void *element, struct xdfs_xio_below *below)
{
    struct layer *layer = (struct layer *) element;

    while (layer->out_sent < layer->out_end) {
        struct iovec rest = { layer->out + layer->out_sent, layer->out_end - layer->out_sent };
        ssize_t sent = below->send(below, &rest, 1, 0);

        if (sent < 0)
            return (int) sent;
        layer->out_sent += (size_t) sent;
    }
    layer->out_sent = layer->out_end = 0;
    return 0;
}

static ssize_t send_bytes(
    void *element, struct xdfs_xio_below *below, const struct iovec *from, int count, unsigned flags)
{
    struct layer *layer = (struct layer *) element;
    size_t end = HEAD;
    unsigned sum;
    int at, failed;

    (void) flags;
    /* One record at a time: the one before must have gone, and nothing of this one was taken yet. */
    failed = flush_record(layer, below);
    if (failed != 0)
        return failed;
    for (at = 0; at < count; at++) {
        size_t room = RECORD - end, length = from[at].iov_len < room ? from[at].iov_len : room;

        if (length > 0)
            memcpy(layer->out + end, from[at].iov_base, length);
        end += length;
    }
    if (end == HEAD)
        return 0;
    sum = checksum(layer->salt, layer->out + HEAD, end - HEAD);
    layer->out[0] = (unsigned char) ((end - HEAD) >> 8);
    layer->out[1] = (unsigned char) (end - HEAD);
    layer->out[2] = (unsigned char) (sum >> 8);
    layer->out[3] = (unsigned char) sum;
    layer->out_end = end;
    /* The bytes were taken: what goes wrong now is told by the next call, which sends the rest. */
    (void) flush_record(layer, below);
    return (ssize_t) (end - HEAD);
}

/* Takes a whole record from below. Zero, or an error below zero; ended is set at an end between records. */
static int fill(struct layer *layer, struct xdfs_xio_below *below)
{
    for (;;) {
        size_t length = (size_t) layer->in[0] << 8 | layer->in[1];
        size_t end = layer->in_end < HEAD ? HEAD : HEAD + length;
        struct iovec rest;
        unsigned flags = 0;
        ssize_t received;

        if (layer->in_end >= HEAD && (length == 0 || end > RECORD))
            return -EBADMSG;
        if (layer->in_end > HEAD && layer->in_end == end) {
            unsigned sum = (unsigned) layer->in[2] << 8 | layer->in[3];

            if (sum != checksum(layer->salt, layer->in + HEAD, length))
                return -EBADMSG;
            layer->in_whole = 1;
            layer->in_told = HEAD;
            return 0;
        }
        if (layer->ended)
            return layer->in_end == 0 ? 0 : -EBADMSG;
        rest.iov_base = layer->in + layer->in_end;
        rest.iov_len = end - layer->in_end;
        received = below->receive(below, &rest, 1, &flags);
        if (received < 0)
            return (int) received;
        layer->in_end += (size_t) received;
        layer->ended = (flags & XDFS_XIO_END) != 0;
    }
}

static ssize_t receive(
    void *element, struct xdfs_xio_below *below, const struct iovec *into, int count, unsigned *flags)
{
    struct layer *layer = (struct layer *) element;
    size_t told = 0;
    int at, failed = layer->in_whole ? 0 : fill(layer, below);

    if (failed != 0)
        return failed;
    if (!layer->in_whole) {
        *flags = XDFS_XIO_END;
        return 0;
    }
    for (at = 0; at < count; at++) {
        size_t left = layer->in_end - layer->in_told;
        size_t length = into[at].iov_len < left ? into[at].iov_len : left;

        if (length > 0)
            memcpy(into[at].iov_base, layer->in + layer->in_told, length);
        layer->in_told += length;
        told += length;
    }
    if (layer->in_told == layer->in_end) {
        layer->in_whole = 0;
        layer->in_end = 0;
    }
    return (ssize_t) told;
}

static int holds(void *element)
{
    return ((struct layer *) element)->in_whole;
}

static void close_layer(void *element)
{
    free(element);
}

static const char *const attributes[] = { "salt", NULL };

static const struct xdfs_xio_transform transform = {
    open_layer, receive, send_bytes, close_layer, flush_record, holds
};

const struct xdfs_xio_driver xdfs_xio_driver_v1 = {
    .abi = XDFS_XIO_DRIVER_ABI,
    .size = sizeof(struct xdfs_xio_driver),
    .name = "records",
    .kind = XDFS_XIO_TRANSFORM,
    .attributes = attributes,
    .transform = &transform
};
