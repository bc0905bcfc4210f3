/*
 * A driver for xdfs-xio that is loaded while a program runs. docs/write-a-driver.md of xdfs explains it.
 *
 * A driver is a shared library, libxdfs_xio_NAME.so, that exports one struct of this type:
 *
 *     const struct xdfs_xio_driver xdfs_xio_driver_v1 = { .abi = XDFS_XIO_DRIVER_ABI, ... };
 *
 * and in C++, where a const in an extern "C" block is not exported, with the members in their order:
 *
 *     extern "C" const struct xdfs_xio_driver xdfs_xio_driver_v1 = { XDFS_XIO_DRIVER_ABI, ... };
 *
 * Numbers of errors are those of errno.h. A transform's receive, send and flush return them below zero, and
 * all others as they are.
 */
#ifndef XDFS_XIO_DRIVER_H
#define XDFS_XIO_DRIVER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define XDFS_XIO_DRIVER_ABI 1

enum {
    /* At the bottom of a stack; its calls wait. Each open connection has two threads, one that reads and
     * one that writes, so that both may be called at a time; each alone is called one at a time. */
    XDFS_XIO_BLOCKING_TRANSPORT = 1,
    /* Above another driver; its calls never wait. They are made one at a time, from any thread. */
    XDFS_XIO_TRANSFORM = 2
};

/* Flags of a transform's receive and send. */
enum {
    XDFS_XIO_END = 1,           /* nothing follows these bytes */
    XDFS_XIO_END_OF_MESSAGE = 2 /* a message ends with these bytes */
};

/*
 * The layer below a transform, while one of its calls lasts. What is returned is what the driver's own
 * functions return: a count, or an error below zero, of which -EAGAIN means that nothing can move now.
 */
struct xdfs_xio_below {
    void *layer;
    ssize_t (*receive)(struct xdfs_xio_below *below, const struct iovec *into, int count, unsigned *flags);
    ssize_t (*send)(struct xdfs_xio_below *below, const struct iovec *from, int count, unsigned flags);
};

struct xdfs_xio_blocking {
    /* Connects. Zero, or an error. What is put into *connection goes to the other functions. attributes
     * is NAME=VALUE;NAME=VALUE, of the driver's own names alone, and a VALUE may be empty; contact is what
     * the program passes, HOST:PORT, a path, a URL or a name alone. */
    int (*open)(void **connection, const char *contact, const char *attributes);
    /* Waits for at least one byte. Zero with *nbytes zero, which it is before the call, is the end. */
    int (*read)(void *connection, const struct iovec *iovec, int count, size_t *nbytes);
    /* Waits until at least one byte is written. */
    int (*write)(void *connection, const struct iovec *iovec, int count, size_t *nbytes);
    /* Called once, when nobody is in another call; what it returns is not looked at. */
    int (*close)(void *connection);
    /* Optional, behind the last write, once. Nothing more will be written: the peer reads the end. */
    int (*finish)(void *connection);
    /* Optional, from any thread. The connection is about to be closed: calls that wait return soon.
     * Without it, a thread stays in its call until that returns. */
    void (*interrupt)(void *connection);
};

/* The passive end of a blocking transport. One thread waits in accept; listen, contact and interrupt come
 * from others. */
struct xdfs_xio_listening {
    /* Starts to listen at contact, which is as that of open, :PORT where any host is meant; a port 0 is a
     * free one. A name in the file system may be left of a listener whose close never came. What is put
     * into *listener goes to the other functions. */
    int (*listen)(void **listener, const char *contact, const char *attributes);
    /* Waits for the next connection, which goes to the functions of struct xdfs_xio_blocking. An error is
     * told to the program, and accept is called again. */
    int (*accept)(void *listener, void **connection);
    /* Writes a contact with which a process of this machine reaches it, with a zero behind it. */
    int (*contact)(void *listener, char *text, size_t size);
    /* Called once, when nobody is in another call; never, where the process ends before. */
    int (*close)(void *listener);
    /* Optional, from any thread. The listener is about to be closed: accept returns soon, with any error.
     * Without it, a thread stays in accept until somebody connects. */
    void (*interrupt)(void *listener);
};

struct xdfs_xio_transform {
    /* A new layer; accepted is not zero at the passive end. Zero, or an error above zero. */
    int (*open)(void **element, const char *attributes, int accepted);
    /* Receives by below->receive. Flags are zero before the call, and set by it. Zero bytes come only
     * with a flag. After XDFS_XIO_END every call says it again. Where the end comes inside of a record,
     * it returns -EBADMSG. */
    ssize_t (*receive)(
        void *element, struct xdfs_xio_below *below, const struct iovec *into, int count, unsigned *flags);
    /* Sends by below->send. It may take fewer bytes than it is given, but none only as -EAGAIN. It may be
     * given no byte. */
    ssize_t (*send)(
        void *element, struct xdfs_xio_below *below, const struct iovec *from, int count, unsigned flags);
    /* Called once. */
    void (*close)(void *element);
    /* Optional; a driver that has it may keep bytes in send. Sends them: zero, or -EAGAIN while some are
     * left, or another error below zero. */
    int (*flush)(void *element, struct xdfs_xio_below *below);
    /* Optional. Not zero where receive could return bytes now without the layer below: half a record does
     * not count. */
    int (*holds)(void *element);
};

struct xdfs_xio_driver {
    uint32_t abi;  /* XDFS_XIO_DRIVER_ABI */
    uint32_t size; /* sizeof(struct xdfs_xio_driver) */
    const char *name; /* NAME of the file's name: a-z, 0-9 and '_' */
    uint32_t kind;
    const char *const *attributes; /* names, with NULL behind the last; or NULL */
    /* The one of the kind; the other is NULL. */
    const struct xdfs_xio_blocking *blocking;
    const struct xdfs_xio_transform *transform;
    /* Of a blocking transport that can listen; otherwise NULL. A struct whose size ends before it is taken
     * as one without. */
    const struct xdfs_xio_listening *listening;
};

#ifdef __cplusplus
}
#endif

#endif
