/* Drivers that break their contract, each in its own way: CASE says which. */
#include <errno.h>
#include <semaphore.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "xdfs_xio_driver.h"

enum {
    GOOD, OTHER_ABI, SMALL, OTHER_NAME, OTHER_KIND, NO_READ, NO_TABLE, BAD_ATTRIBUTE, /* while it is loaded */
    OPEN_FAILS, OPEN_NONSENSE, READ_TOO_MUCH, READ_NEGATIVE, READ_WAITS, WRITE_NOTHING, WRITE_TOO_MUCH, /* blocking */
    LATE, /* blocking, at the close */
    READ_INTERRUPTED, /* blocking, as the last ones are: for a while all calls are */
    RECEIVE_TOO_MUCH, RECEIVE_NOTHING, RECEIVE_NONSENSE, SEND_TOO_MUCH, BAD_VECTORS, /* transforms */
    LISTEN_FAILS, ACCEPT_FAILS, ACCEPT_NONSENSE, ACCEPT_WAITS, ENDLESS_CONTACT, NO_ACCEPT, OLD, /* blocking, passive */
    WRITE_INTERRUPTED, ACCEPT_INTERRUPTED,
    FLUSH_COUNTS, /* a transform */
    OPEN_INTERRUPTED, FINISH_INTERRUPTED, /* blocking */
    NEEDS_MORE = 98 /* while it is loaded, as 99, which has no symbol */
};

#ifndef CASE
#define CASE GOOD
#endif

static sem_t interrupted;
static sem_t written;
static long calls_before;

/* Not zero for a while from the first call on. */
static int still_interrupted(void)
{
    static struct timespec first;
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    if (calls_before == 0)
        first = now;
    if ((now.tv_sec - first.tv_sec) * 1000 + (now.tv_nsec - first.tv_nsec) / 1000000 >= 200)
        return 0;
    calls_before++;
    return 1;
}

static int open_blocking(void **connection, const char *contact, const char *attributes)
{
    (void) contact;
    (void) attributes;
    if (CASE == OPEN_INTERRUPTED && still_interrupted())
        return EINTR;
    sem_init(&interrupted, 0, 0);
    sem_init(&written, 0, 0);
    *connection = &interrupted;
    return CASE == OPEN_FAILS ? ECONNREFUSED : CASE == OPEN_NONSENSE ? -3 : 0;
}

static int read_blocking(void *connection, const struct iovec *iovec, int count, size_t *nbytes)
{
    (void) connection;
    (void) count;
    if (CASE == READ_NEGATIVE)
        return -1;
    if (CASE == READ_INTERRUPTED && still_interrupted())
        return EINTR;
    if (CASE == WRITE_INTERRUPTED) {
        while (sem_wait(&written) != 0)
            continue;
    }
    if (CASE == READ_INTERRUPTED || CASE == WRITE_INTERRUPTED || CASE == ACCEPT_INTERRUPTED || CASE == OPEN_INTERRUPTED) {
        /* How many calls that took; then the end. */
        *nbytes = calls_before == 0 ? 0 : (size_t) snprintf(iovec->iov_base, iovec->iov_len, "%ld", calls_before);
        calls_before = 0;
        return 0;
    }
    if (CASE == READ_WAITS)
        return EAGAIN;
    if (CASE == LATE) {
        while (sem_wait(&interrupted) != 0)
            continue;
    }
    *nbytes = CASE == READ_TOO_MUCH || CASE == LATE ? iovec->iov_len + 1 : 0;
    return 0;
}

static int write_blocking(void *connection, const struct iovec *iovec, int count, size_t *nbytes)
{
    (void) connection;
    (void) count;
    if (CASE == WRITE_INTERRUPTED) {
        if (still_interrupted())
            return EINTR;
        sem_post(&written);
    }
    *nbytes = CASE == WRITE_NOTHING ? 0 : iovec->iov_len + (CASE == WRITE_TOO_MUCH);
    return 0;
}

static int finish(void *connection)
{
    (void) connection;
    return still_interrupted() ? EINTR : ENOSPC;
}

static int close_blocking(void *connection)
{
    (void) connection;
    return -1;
}

static void interrupt_blocking(void *connection)
{
    sem_post((sem_t *) connection);
    sem_post(&written);
}

static int open_transform(void **element, const char *attributes, int accepted)
{
    (void) element;
    (void) attributes;
    (void) accepted;
    return 0;
}

static ssize_t receive(
    void *element, struct xdfs_xio_below *below, const struct iovec *into, int count, unsigned *flags)
{
    (void) element;
    switch (CASE) {
    case RECEIVE_TOO_MUCH:
        return (ssize_t) into->iov_len + 1;
    case RECEIVE_NOTHING:
        return 0;
    case RECEIVE_NONSENSE:
        return -1000000;
    case BAD_VECTORS:
        return below->receive(below, NULL, 5, flags);
    }
    return below->receive(below, into, count, flags);
}

static ssize_t send_bytes(
    void *element, struct xdfs_xio_below *below, const struct iovec *from, int count, unsigned flags)
{
    (void) element;
    if (CASE == SEND_TOO_MUCH)
        return (ssize_t) from->iov_len + 1;
    return below->send(below, from, count, flags);
}

static int flush(void *element, struct xdfs_xio_below *below)
{
    (void) element;
    (void) below;
    return 5;
}

#if CASE == 98
int xdfs_nobody_has_this(void);
#endif

static void close_transform(void *element)
{
    (void) element;
#if CASE == 98
    (void) xdfs_nobody_has_this();
#endif
}

static sem_t closing;

static int listen_blocking(void **listener, const char *contact, const char *attributes)
{
    (void) contact;
    (void) attributes;
    sem_init(&closing, 0, 0);
    *listener = &closing;
    return CASE == LISTEN_FAILS ? EADDRINUSE : 0;
}

/* The first two succeed, between two that fail. */
static int accept_blocking(void *listener, void **connection)
{
    static int calls;

    if (CASE == ACCEPT_INTERRUPTED && still_interrupted())
        return EINTR;
    if (CASE == ACCEPT_INTERRUPTED && calls++ == 0)
        return open_blocking(connection, "", "");
    switch (calls++) {
    case 1:
    case 2:
        return open_blocking(connection, "", "");
    case 0:
    case 3:
        return CASE == ACCEPT_NONSENSE ? -9 : CASE == ACCEPT_WAITS ? EAGAIN : EMFILE;
    }
    while (sem_wait((sem_t *) listener) != 0)
        continue;
    return ECANCELED;
}

static int contact_blocking(void *listener, char *text, size_t size)
{
    (void) listener;
    memset(text, 'c', size);
    if (CASE != ENDLESS_CONTACT)
        text[3] = 0;
    return 0;
}

static const struct xdfs_xio_listening listening = {
    listen_blocking, CASE == NO_ACCEPT ? NULL : accept_blocking, contact_blocking, close_blocking, interrupt_blocking
};
static const struct xdfs_xio_blocking blocking = {
    open_blocking, CASE == NO_READ ? NULL : read_blocking, write_blocking, close_blocking,
    CASE == FINISH_INTERRUPTED ? finish : NULL, interrupt_blocking
};
static const struct xdfs_xio_transform transform = {
    open_transform, receive, send_bytes, close_transform, CASE == FLUSH_COUNTS ? flush : NULL, NULL
};
static const char *const attributes[] = { CASE == BAD_ATTRIBUTE ? "a=b" : "a", NULL };

#if CASE != 99
const struct xdfs_xio_driver xdfs_xio_driver_v1 = {
    CASE == OTHER_ABI ? 7 : XDFS_XIO_DRIVER_ABI,
    CASE == SMALL ? offsetof(struct xdfs_xio_driver, transform)
        : CASE == OLD ? offsetof(struct xdfs_xio_driver, listening) : sizeof(struct xdfs_xio_driver),
    CASE == OTHER_NAME ? "another" : "odd",
    CASE == OTHER_KIND ? 9
        : (CASE >= RECEIVE_TOO_MUCH && CASE <= BAD_VECTORS) || CASE == FLUSH_COUNTS ? XDFS_XIO_TRANSFORM : XDFS_XIO_BLOCKING_TRANSPORT,
    attributes,
    CASE == NO_TABLE ? NULL : &blocking,
    &transform,
    &listening
};
#endif
