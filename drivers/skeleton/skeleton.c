/*
 * skeleton: the smallest transform that changes bytes, to begin one's own with. It combines each byte with
 * a key: skeleton:key=7. That hides nothing from anybody.
 *
 *     cc -shared -fPIC -Wall -Wl,-z,defs -I crates/xio/include \
 *         -o libxdfs_xio_skeleton.so drivers/skeleton/skeleton.c
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "xdfs_xio_driver.h"

struct layer {
    unsigned char key;
};

/* The number of an attribute, of attributes such as key=7;other=8. It stays as it was where none is given. */
static int number(const char *attributes, const char *name, long *value)
{
    size_t length = strlen(name);
    const char *at = attributes;

    while (*at != 0) {
        if (strncmp(at, name, length) == 0 && at[length] == '=') {
            const char *text = at + length + 1;
            char *end;

            *value = strtol(text, &end, 10);
            return end != text && (*end == 0 || *end == ';') ? 0 : EINVAL;
        }
        at += strcspn(at, ";");
        at += *at == ';';
    }
    return 0;
}

static int open_layer(void **element, const char *attributes, int accepted)
{
    struct layer *layer;
    long key = 42;

    (void) accepted;
    /* The framework lets no names through but those that are listed below. */
    if (number(attributes, "key", &key) != 0 || key < 0 || key > 255)
        return EINVAL;
    layer = (struct layer *) malloc(sizeof(*layer));
    if (layer == NULL)
        return ENOMEM;
    layer->key = (unsigned char) key;
    *element = layer;
    return 0;
}

static ssize_t receive(
    void *element, struct xdfs_xio_below *below, const struct iovec *into, int count, unsigned *flags)
{
    struct layer *layer = (struct layer *) element;
    ssize_t received = below->receive(below, into, count, flags);
    size_t left = received > 0 ? (size_t) received : 0;
    int at;

    for (at = 0; at < count && left > 0; at++) {
        size_t length = into[at].iov_len < left ? into[at].iov_len : left;
        unsigned char *bytes = (unsigned char *) into[at].iov_base;
        size_t byte;

        for (byte = 0; byte < length; byte++)
            bytes[byte] ^= layer->key;
        left -= length;
    }
    return received;
}

static ssize_t send_bytes(
    void *element, struct xdfs_xio_below *below, const struct iovec *from, int count, unsigned flags)
{
    struct layer *layer = (struct layer *) element;
    unsigned char changed[16384];
    struct iovec one = { changed, 0 };
    int at, all = 1;

    /* The bytes are the user's: what changes them makes a copy. What does not fit is asked for again. */
    for (at = 0; at < count; at++) {
        const unsigned char *bytes = (const unsigned char *) from[at].iov_base;
        size_t byte;

        for (byte = 0; byte < from[at].iov_len && one.iov_len < sizeof(changed); byte++)
            changed[one.iov_len++] = bytes[byte] ^ layer->key;
        if (byte < from[at].iov_len)
            all = 0;
    }
    /* The layer below may take fewer bytes: what is counted, or changes with its place, goes by what it took. A message
     * ends with its last byte. */
    return below->send(below, &one, 1, all ? flags : 0);
}

static void close_layer(void *element)
{
    free(element);
}

static const char *const attributes[] = { "key", NULL };

static const struct xdfs_xio_transform transform = {
    open_layer, receive, send_bytes, close_layer, NULL, NULL
};

const struct xdfs_xio_driver xdfs_xio_driver_v1 = {
    .abi = XDFS_XIO_DRIVER_ABI,
    .size = sizeof(struct xdfs_xio_driver),
    .name = "skeleton",
    .kind = XDFS_XIO_TRANSFORM,
    .attributes = attributes,
    .transform = &transform
};
