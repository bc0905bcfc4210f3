/*
 * libxdfs_xio: driver stacks for programs in C. docs/xio.md of xdfs has the rules for handles and the
 * drivers with their attributes and commands; this file has the calls.
 *
 * Who owns what. Memory belongs to the caller, always: the library returns none that must be freed, and
 * keeps none but the buffers of a registered operation, from the call until its callback. Handles,
 * stacks and the like are names and not addresses: one that is unknown, or was closed, is an error.
 *
 * Any thread may call anything. Callbacks run one at a time on a thread of the library's, those of
 * register_accept on another of the server's; from a callback of a handle nothing may be called that
 * waits, and everything may be registered.
 */
#ifndef XDFS_XIO_H
#define XDFS_XIO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Zero, or an error: its kind, and which one it is, for its text. */
typedef uint32_t xdfs_xio_result_t;

#define XDFS_XIO_SUCCESS 0

/* The kinds of errors, the same for all drivers. */
enum {
    XDFS_XIO_ERROR_USAGE = 1,       /* the call cannot be meant */
    XDFS_XIO_ERROR_CONTACT = 2,     /* the contact string is malformed, or of no use to the driver */
    XDFS_XIO_ERROR_UNSUPPORTED = 3, /* the driver cannot do that */
    XDFS_XIO_ERROR_CANCELLED = 4,   /* the operation was cancelled */
    XDFS_XIO_ERROR_TIMED_OUT = 5,   /* its time is up */
    XDFS_XIO_ERROR_CLOSED = 6,      /* the handle is closed */
    XDFS_XIO_ERROR_TOO_MANY = 7,    /* too many operations are outstanding */
    XDFS_XIO_ERROR_NOT_FOUND = 8,   /* there is no such file, host or listener */
    XDFS_XIO_ERROR_DENIED = 9,      /* it is not allowed */
    XDFS_XIO_ERROR_LOST = 10,       /* the peer refused or ended the connection */
    XDFS_XIO_ERROR_PROTOCOL = 11,   /* what arrived is not what the driver's protocol allows */
    XDFS_XIO_ERROR_DRIVER = 12,     /* the driver broke its contract */
    XDFS_XIO_ERROR_OTHER = 13,
    XDFS_XIO_ERROR_END = 14         /* a read met the end before the bytes that it waited for */
};

/* The kind of an error, zero of a success. */
#define XDFS_XIO_KIND(result) ((int) ((result) & 0xff))

typedef struct xdfs_xio_driver_s *xdfs_xio_driver_t;
typedef struct xdfs_xio_stack_s *xdfs_xio_stack_t;
typedef struct xdfs_xio_attr_s *xdfs_xio_attr_t;
typedef struct xdfs_xio_handle_s *xdfs_xio_handle_t;
typedef struct xdfs_xio_server_s *xdfs_xio_server_t;
typedef struct xdfs_xio_data_descriptor_s *xdfs_xio_data_descriptor_t;
typedef struct iovec xdfs_xio_iovec_t;

typedef void (*xdfs_xio_callback_t)(xdfs_xio_handle_t handle, xdfs_xio_result_t result, void *user_arg);
typedef void (*xdfs_xio_data_callback_t)(
    xdfs_xio_handle_t handle, xdfs_xio_result_t result, unsigned char *buffer, size_t length, size_t nbytes,
    xdfs_xio_data_descriptor_t data_desc, void *user_arg);
typedef void (*xdfs_xio_iovec_callback_t)(
    xdfs_xio_handle_t handle, xdfs_xio_result_t result, xdfs_xio_iovec_t *iovec, int count, size_t nbytes,
    xdfs_xio_data_descriptor_t data_desc, void *user_arg);
typedef void (*xdfs_xio_accept_callback_t)(
    xdfs_xio_server_t server, xdfs_xio_handle_t handle, xdfs_xio_result_t result, void *user_arg);

/*
 * The text of an error, as snprintf writes it: at most size bytes with the zero behind them; what is
 * returned is its whole length. Texts of the last 256 errors are kept, and after them one of the kind.
 */
size_t xdfs_xio_result_text(xdfs_xio_result_t result, char *text, size_t size);

/* Every other call fails before the first, and after as many of the second: that closes everything. */
xdfs_xio_result_t xdfs_xio_activate(void);
xdfs_xio_result_t xdfs_xio_deactivate(void);

/* Drivers by name; docs/xio.md says where others than the library's own are looked for. */
xdfs_xio_result_t xdfs_xio_driver_load(const char *name, xdfs_xio_driver_t *driver);
xdfs_xio_result_t xdfs_xio_driver_unload(xdfs_xio_driver_t driver);

/* Attributes: of a driver by its own names, and without one `contact` (where a server listens),
 * `timeout`, `open_timeout`, `read_timeout`, `write_timeout` and `close_timeout` (such as 250ms). */
xdfs_xio_result_t xdfs_xio_attr_init(xdfs_xio_attr_t *attr);
xdfs_xio_result_t xdfs_xio_attr_set(
    xdfs_xio_attr_t attr, xdfs_xio_driver_t driver, const char *name, const char *value);
xdfs_xio_result_t xdfs_xio_attr_copy(xdfs_xio_attr_t *copy, xdfs_xio_attr_t attr);
xdfs_xio_result_t xdfs_xio_attr_destroy(xdfs_xio_attr_t attr);

/* Stacks: the transport is pushed first. A handle or server keeps what it was made of. */
xdfs_xio_result_t xdfs_xio_stack_init(xdfs_xio_stack_t *stack, xdfs_xio_attr_t attr);
xdfs_xio_result_t xdfs_xio_stack_push_driver(xdfs_xio_stack_t stack, xdfs_xio_driver_t driver);
xdfs_xio_result_t xdfs_xio_stack_copy(xdfs_xio_stack_t *copy, xdfs_xio_stack_t stack);
xdfs_xio_result_t xdfs_xio_stack_destroy(xdfs_xio_stack_t stack);

/* Handles. A handle that could not be opened is closed like others. */
xdfs_xio_result_t xdfs_xio_handle_create(xdfs_xio_handle_t *handle, xdfs_xio_stack_t stack);
/* Of the stack that a scheme names, which is its first part alone: file, tcp, unix, pipe, http, https... */
xdfs_xio_result_t xdfs_xio_handle_create_from_url(
    xdfs_xio_handle_t *handle, const char *url, xdfs_xio_attr_t attr);
xdfs_xio_result_t xdfs_xio_open(xdfs_xio_handle_t handle, const char *contact, xdfs_xio_attr_t attr);
xdfs_xio_result_t xdfs_xio_register_open(
    xdfs_xio_handle_t handle, const char *contact, xdfs_xio_attr_t attr, xdfs_xio_callback_t callback,
    void *user_arg);
xdfs_xio_result_t xdfs_xio_close(xdfs_xio_handle_t handle, xdfs_xio_attr_t attr);
xdfs_xio_result_t xdfs_xio_register_close(
    xdfs_xio_handle_t handle, xdfs_xio_attr_t attr, xdfs_xio_callback_t callback, void *user_arg);

enum {
    XDFS_XIO_CANCEL_OPEN = 1,
    XDFS_XIO_CANCEL_CLOSE = 2,
    XDFS_XIO_CANCEL_READ = 4,
    XDFS_XIO_CANCEL_WRITE = 8
};

/* Ends the outstanding operations of those directions. A close is not cancelled: it has a timeout. */
xdfs_xio_result_t xdfs_xio_handle_cancel_operations(xdfs_xio_handle_t handle, int mask);

/* A command of one driver, or without one of the highest that knows it. value may be NULL; the answer
 * is written as by xdfs_xio_result_text, and answer may be NULL. */
xdfs_xio_result_t xdfs_xio_handle_control(
    xdfs_xio_handle_t handle, xdfs_xio_driver_t driver, const char *name, const char *value, char *answer,
    size_t size);

/*
 * Reads and writes. A read ends with at least waitforbytes bytes, or fewer and XDFS_XIO_ERROR_END. A write
 * ends with all of them. nbytes is set in any case, and may be NULL, as may data_desc.
 */
xdfs_xio_result_t xdfs_xio_read(
    xdfs_xio_handle_t handle, unsigned char *buffer, size_t length, size_t waitforbytes, size_t *nbytes,
    xdfs_xio_data_descriptor_t data_desc);
xdfs_xio_result_t xdfs_xio_readv(
    xdfs_xio_handle_t handle, xdfs_xio_iovec_t *iovec, int count, size_t waitforbytes, size_t *nbytes,
    xdfs_xio_data_descriptor_t data_desc);
xdfs_xio_result_t xdfs_xio_write(
    xdfs_xio_handle_t handle, unsigned char *buffer, size_t length, size_t waitforbytes, size_t *nbytes,
    xdfs_xio_data_descriptor_t data_desc);
xdfs_xio_result_t xdfs_xio_writev(
    xdfs_xio_handle_t handle, xdfs_xio_iovec_t *iovec, int count, size_t waitforbytes, size_t *nbytes,
    xdfs_xio_data_descriptor_t data_desc);

/* The same, told by a callback. The bytes are not copied: until then nobody else may touch them. */
xdfs_xio_result_t xdfs_xio_register_read(
    xdfs_xio_handle_t handle, unsigned char *buffer, size_t length, size_t waitforbytes,
    xdfs_xio_data_descriptor_t data_desc, xdfs_xio_data_callback_t callback, void *user_arg);
xdfs_xio_result_t xdfs_xio_register_readv(
    xdfs_xio_handle_t handle, xdfs_xio_iovec_t *iovec, int count, size_t waitforbytes,
    xdfs_xio_data_descriptor_t data_desc, xdfs_xio_iovec_callback_t callback, void *user_arg);
xdfs_xio_result_t xdfs_xio_register_write(
    xdfs_xio_handle_t handle, unsigned char *buffer, size_t length, size_t waitforbytes,
    xdfs_xio_data_descriptor_t data_desc, xdfs_xio_data_callback_t callback, void *user_arg);
xdfs_xio_result_t xdfs_xio_register_writev(
    xdfs_xio_handle_t handle, xdfs_xio_iovec_t *iovec, int count, size_t waitforbytes,
    xdfs_xio_data_descriptor_t data_desc, xdfs_xio_iovec_callback_t callback, void *user_arg);

/*
 * What goes with the bytes of one operation: `offset`, `peer` (ip:port) and `end_of_message` (true or
 * false). Set before a write; after a read they say what came, and `end` as well. One that is not known
 * is an empty text. The text is written as by xdfs_xio_result_text.
 */
xdfs_xio_result_t xdfs_xio_data_descriptor_init(
    xdfs_xio_data_descriptor_t *data_desc, xdfs_xio_handle_t handle);
xdfs_xio_result_t xdfs_xio_data_descriptor_set(
    xdfs_xio_data_descriptor_t data_desc, const char *name, const char *value);
xdfs_xio_result_t xdfs_xio_data_descriptor_get(
    xdfs_xio_data_descriptor_t data_desc, const char *name, char *value, size_t size);
xdfs_xio_result_t xdfs_xio_data_descriptor_destroy(xdfs_xio_data_descriptor_t data_desc);

/* Servers. What is accepted is opened by xdfs_xio_open with NULL as contact; of its attributes the
 * timeouts alone count, those of drivers are the server's. One accept is registered at a time. */
xdfs_xio_result_t xdfs_xio_server_create(
    xdfs_xio_server_t *server, xdfs_xio_attr_t attr, xdfs_xio_stack_t stack);
xdfs_xio_result_t xdfs_xio_server_contact(xdfs_xio_server_t server, char *contact, size_t size);
xdfs_xio_result_t xdfs_xio_server_accept(xdfs_xio_handle_t *handle, xdfs_xio_server_t server);
xdfs_xio_result_t xdfs_xio_server_register_accept(
    xdfs_xio_server_t server, xdfs_xio_accept_callback_t callback, void *user_arg);
xdfs_xio_result_t xdfs_xio_server_close(xdfs_xio_server_t server);

#ifdef __cplusplus
}
#endif

#endif
