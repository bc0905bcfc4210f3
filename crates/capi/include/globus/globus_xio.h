/*
 * The names of Globus XIO for libxdfs_xio: a program that was written for it compiles with this folder in
 * its include path, and is linked with -lxdfs_xio. It is for sources; what was compiled for the other
 * library does not run with this one.
 *
 * Calls that take further arguments by their command know the commands below. Any other is the error
 * XDFS_XIO_ERROR_UNSUPPORTED; drivers' attributes that have no command here are given as text by
 * GLOBUS_XIO_SET_STRING_OPTIONS, and docs/xio.md of xdfs has their names.
 */
#ifndef XDFS_GLOBUS_XIO_H
#define XDFS_GLOBUS_XIO_H

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../xdfs_xio.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef xdfs_xio_result_t globus_result_t;
typedef size_t globus_size_t;
typedef unsigned char globus_byte_t;
typedef off_t globus_off_t;
typedef int globus_bool_t;
typedef struct { long tv_sec; long tv_nsec; } globus_abstime_t;
typedef struct { long tv_sec; long tv_usec; } globus_reltime_t;

#define GLOBUS_SUCCESS XDFS_XIO_SUCCESS
#define GLOBUS_FAILURE (-1)
#define GLOBUS_NULL NULL
#define GLOBUS_TRUE 1
#define GLOBUS_FALSE 0

#define GlobusTimeReltimeSet(reltime, seconds, microseconds) \
    ((reltime).tv_sec = (seconds), (reltime).tv_usec = (microseconds))

typedef xdfs_xio_driver_t globus_xio_driver_t;
typedef xdfs_xio_stack_t globus_xio_stack_t;
typedef xdfs_xio_attr_t globus_xio_attr_t;
typedef xdfs_xio_handle_t globus_xio_handle_t;
typedef xdfs_xio_server_t globus_xio_server_t;
typedef xdfs_xio_data_descriptor_t globus_xio_data_descriptor_t;
typedef xdfs_xio_iovec_t globus_xio_iovec_t;
typedef xdfs_xio_callback_t globus_xio_callback_t;
typedef xdfs_xio_data_callback_t globus_xio_data_callback_t;
typedef xdfs_xio_iovec_callback_t globus_xio_iovec_callback_t;
typedef xdfs_xio_accept_callback_t globus_xio_accept_callback_t;

/* The driver to ask is the highest that knows the command. */
#define GLOBUS_XIO_QUERY ((globus_xio_driver_t) 1)

/* Modules: the framework is the one that there is, and others need no activation. */
typedef int xdfs_globus_module_t;
#define GLOBUS_COMMON_MODULE ((xdfs_globus_module_t) 0)
#define GLOBUS_XIO_MODULE ((xdfs_globus_module_t) 1)

static inline int globus_module_activate(xdfs_globus_module_t module)
{
    return module == GLOBUS_XIO_MODULE ? (int) xdfs_xio_activate() : 0;
}

static inline int globus_module_deactivate(xdfs_globus_module_t module)
{
    return module == GLOBUS_XIO_MODULE ? (int) xdfs_xio_deactivate() : 0;
}

/* Calls that are the same. */
#define globus_xio_driver_load xdfs_xio_driver_load
#define globus_xio_driver_unload xdfs_xio_driver_unload
#define globus_xio_attr_init xdfs_xio_attr_init
#define globus_xio_attr_copy xdfs_xio_attr_copy
#define globus_xio_attr_destroy xdfs_xio_attr_destroy
#define globus_xio_stack_init xdfs_xio_stack_init
#define globus_xio_stack_push_driver xdfs_xio_stack_push_driver
#define globus_xio_stack_copy xdfs_xio_stack_copy
#define globus_xio_stack_destroy xdfs_xio_stack_destroy
#define globus_xio_handle_create xdfs_xio_handle_create
#define globus_xio_open xdfs_xio_open
#define globus_xio_register_open xdfs_xio_register_open
#define globus_xio_read xdfs_xio_read
#define globus_xio_readv xdfs_xio_readv
#define globus_xio_write xdfs_xio_write
#define globus_xio_writev xdfs_xio_writev
#define globus_xio_register_read xdfs_xio_register_read
#define globus_xio_register_readv xdfs_xio_register_readv
#define globus_xio_register_write xdfs_xio_register_write
#define globus_xio_register_writev xdfs_xio_register_writev
#define globus_xio_close xdfs_xio_close
#define globus_xio_register_close xdfs_xio_register_close
#define globus_xio_handle_cancel_operations xdfs_xio_handle_cancel_operations
#define globus_xio_data_descriptor_init xdfs_xio_data_descriptor_init
#define globus_xio_data_descriptor_destroy xdfs_xio_data_descriptor_destroy
#define globus_xio_server_create xdfs_xio_server_create
#define globus_xio_server_accept xdfs_xio_server_accept
#define globus_xio_server_register_accept xdfs_xio_server_register_accept
#define globus_xio_server_close xdfs_xio_server_close

#define GLOBUS_XIO_CANCEL_OPEN XDFS_XIO_CANCEL_OPEN
#define GLOBUS_XIO_CANCEL_CLOSE XDFS_XIO_CANCEL_CLOSE
#define GLOBUS_XIO_CANCEL_READ XDFS_XIO_CANCEL_READ
#define GLOBUS_XIO_CANCEL_WRITE XDFS_XIO_CANCEL_WRITE

/* Drivers of the scheme's stack are loaded; parameters of drivers go into the attributes. */
static inline globus_result_t globus_xio_handle_create_from_url(
    globus_xio_handle_t *handle, const char *scheme, globus_xio_attr_t attr, char *parameters)
{
    return parameters == NULL
        ? xdfs_xio_handle_create_from_url(handle, scheme, attr)
        : (xdfs_xio_result_t) XDFS_XIO_ERROR_UNSUPPORTED;
}

/* Errors. */
#define globus_xio_error_is_eof(result) (XDFS_XIO_KIND(result) == XDFS_XIO_ERROR_END)
#define globus_xio_error_is_canceled(result) (XDFS_XIO_KIND(result) == XDFS_XIO_ERROR_CANCELLED)

typedef struct xdfs_globus_object_s globus_object_t;

static inline globus_object_t *globus_error_peek(globus_result_t result)
{
    return (globus_object_t *) (uintptr_t) result;
}

#define globus_error_get globus_error_peek
#define globus_object_free(object) ((void) (object))

/* The text is the caller's, who frees it. */
static inline char *globus_error_print_friendly(globus_object_t *error)
{
    globus_result_t result = (globus_result_t) (uintptr_t) error;
    size_t size = xdfs_xio_result_text(result, NULL, 0) + 1;
    char *text = (char *) malloc(size);

    if (text != NULL)
        xdfs_xio_result_text(result, text, size);
    return text;
}

/* A contact string is the caller's, who frees it. */
static inline globus_result_t xdfs_globus_own(globus_result_t result, const char *text, char **copy)
{
    if (result != GLOBUS_SUCCESS)
        return result;
    *copy = (char *) malloc(strlen(text) + 1);
    if (*copy == NULL)
        return XDFS_XIO_ERROR_OTHER;
    strcpy(*copy, text);
    return GLOBUS_SUCCESS;
}

static inline globus_result_t globus_xio_server_get_contact_string(globus_xio_server_t server, char **contact)
{
    char text[4096];
    globus_result_t result = xdfs_xio_server_contact(server, text, sizeof(text));

    return xdfs_globus_own(result, text, contact);
}

/* Commands. */
enum {
    GLOBUS_XIO_ATTR_SET_TIMEOUT_ALL = 1,
    GLOBUS_XIO_ATTR_SET_TIMEOUT_OPEN,
    GLOBUS_XIO_ATTR_SET_TIMEOUT_CLOSE,
    GLOBUS_XIO_ATTR_SET_TIMEOUT_READ,
    GLOBUS_XIO_ATTR_SET_TIMEOUT_WRITE,
    GLOBUS_XIO_TCP_SET_PORT,       /* int: where a server listens */
    GLOBUS_XIO_TCP_SET_SNDBUF,     /* int: the window; the larger of both is used */
    GLOBUS_XIO_TCP_SET_RCVBUF,     /* int */
    GLOBUS_XIO_TCP_SET_NODELAY,    /* globus_bool_t */
    GLOBUS_XIO_SET_STRING_OPTIONS, /* char *: a driver's attributes, name=value;name=value */
    GLOBUS_XIO_GET_LOCAL_CONTACT,  /* char ** */
    GLOBUS_XIO_GET_LOCAL_NUMERIC_CONTACT,
    GLOBUS_XIO_GET_REMOTE_CONTACT,
    GLOBUS_XIO_GET_REMOTE_NUMERIC_CONTACT,
    GLOBUS_XIO_SEEK,               /* globus_off_t, from the beginning */
    GLOBUS_XIO_GRIDFTP_SEEK,       /* the same, as the driver gridftp names it */
    GLOBUS_XIO_DD_SET_OFFSET,      /* globus_off_t */
    GLOBUS_XIO_DD_GET_OFFSET       /* globus_off_t *; -1 where it is not known */
};

typedef int globus_xio_attr_cmd_t;
/* Programs pass these beside a time limit's callback; the limit counts alone. */
typedef globus_bool_t (*globus_xio_timeout_callback_t)(globus_xio_handle_t handle, int type, void *user_arg);

static inline globus_xio_driver_t xdfs_globus_driver(globus_xio_driver_t driver)
{
    return driver == GLOBUS_XIO_QUERY ? NULL : driver;
}

static inline globus_result_t xdfs_globus_set_number(
    globus_xio_attr_t attr, globus_xio_driver_t driver, const char *name, const char *form, long number)
{
    char text[64];

    snprintf(text, sizeof(text), form, number);
    return xdfs_xio_attr_set(attr, driver, name, text);
}

/* A time limit is a callback, a globus_reltime_t * and the callback's argument. */
static inline globus_result_t xdfs_globus_set_timeout(globus_xio_attr_t attr, const char *name, va_list arguments)
{
    const globus_reltime_t *limit;

    (void) va_arg(arguments, globus_xio_timeout_callback_t);
    limit = va_arg(arguments, const globus_reltime_t *);
    if (limit == NULL)
        return XDFS_XIO_ERROR_USAGE;
    return xdfs_globus_set_number(attr, NULL, name, "%ldus", limit->tv_sec * 1000000 + limit->tv_usec);
}

static inline globus_result_t globus_xio_attr_cntl(
    globus_xio_attr_t attr, globus_xio_driver_t driver, int command, ...)
{
    globus_result_t result = XDFS_XIO_ERROR_UNSUPPORTED;
    va_list arguments;

    va_start(arguments, command);
    switch (command) {
    case GLOBUS_XIO_ATTR_SET_TIMEOUT_ALL:
        result = xdfs_globus_set_timeout(attr, "timeout", arguments);
        break;
    case GLOBUS_XIO_ATTR_SET_TIMEOUT_OPEN:
        result = xdfs_globus_set_timeout(attr, "open_timeout", arguments);
        break;
    case GLOBUS_XIO_ATTR_SET_TIMEOUT_CLOSE:
        result = xdfs_globus_set_timeout(attr, "close_timeout", arguments);
        break;
    case GLOBUS_XIO_ATTR_SET_TIMEOUT_READ:
        result = xdfs_globus_set_timeout(attr, "read_timeout", arguments);
        break;
    case GLOBUS_XIO_ATTR_SET_TIMEOUT_WRITE:
        result = xdfs_globus_set_timeout(attr, "write_timeout", arguments);
        break;
    case GLOBUS_XIO_TCP_SET_PORT:
        result = xdfs_globus_set_number(attr, NULL, "contact", ":%ld", va_arg(arguments, int));
        break;
    case GLOBUS_XIO_TCP_SET_SNDBUF:
    case GLOBUS_XIO_TCP_SET_RCVBUF:
        result = xdfs_globus_set_number(attr, driver, "window", "%ld", va_arg(arguments, int));
        break;
    case GLOBUS_XIO_TCP_SET_NODELAY:
        result = xdfs_xio_attr_set(attr, driver, "delay", va_arg(arguments, globus_bool_t) ? "false" : "true");
        break;
    case GLOBUS_XIO_SET_STRING_OPTIONS:
        result = xdfs_xio_attr_set(attr, driver, NULL, va_arg(arguments, const char *));
        break;
    }
    va_end(arguments);
    return result;
}

static inline globus_result_t globus_xio_handle_cntl(
    globus_xio_handle_t handle, globus_xio_driver_t driver, int command, ...)
{
    globus_result_t result = XDFS_XIO_ERROR_UNSUPPORTED;
    char text[4096];
    va_list arguments;

    driver = xdfs_globus_driver(driver);
    va_start(arguments, command);
    switch (command) {
    case GLOBUS_XIO_GET_LOCAL_CONTACT:
    case GLOBUS_XIO_GET_LOCAL_NUMERIC_CONTACT:
        result = xdfs_xio_handle_control(handle, driver, "local", NULL, text, sizeof(text));
        result = xdfs_globus_own(result, text, va_arg(arguments, char **));
        break;
    case GLOBUS_XIO_GET_REMOTE_CONTACT:
    case GLOBUS_XIO_GET_REMOTE_NUMERIC_CONTACT:
        result = xdfs_xio_handle_control(handle, driver, "peer", NULL, text, sizeof(text));
        result = xdfs_globus_own(result, text, va_arg(arguments, char **));
        break;
    case GLOBUS_XIO_SEEK:
    case GLOBUS_XIO_GRIDFTP_SEEK:
        snprintf(text, sizeof(text), "%lld", (long long) va_arg(arguments, globus_off_t));
        result = xdfs_xio_handle_control(handle, driver, "seek", text, NULL, 0);
        break;
    }
    va_end(arguments);
    return result;
}

static inline globus_result_t globus_xio_server_cntl(
    globus_xio_server_t server, globus_xio_driver_t driver, int command, ...)
{
    globus_result_t result = XDFS_XIO_ERROR_UNSUPPORTED;
    va_list arguments;

    (void) driver;
    va_start(arguments, command);
    switch (command) {
    case GLOBUS_XIO_GET_LOCAL_CONTACT:
    case GLOBUS_XIO_GET_LOCAL_NUMERIC_CONTACT:
        result = globus_xio_server_get_contact_string(server, va_arg(arguments, char **));
        break;
    }
    va_end(arguments);
    return result;
}

static inline globus_result_t globus_xio_data_descriptor_cntl(
    globus_xio_data_descriptor_t data_desc, globus_xio_driver_t driver, int command, ...)
{
    globus_result_t result = XDFS_XIO_ERROR_UNSUPPORTED;
    char text[64];
    va_list arguments;

    (void) driver;
    va_start(arguments, command);
    switch (command) {
    case GLOBUS_XIO_DD_SET_OFFSET:
        snprintf(text, sizeof(text), "%lld", (long long) va_arg(arguments, globus_off_t));
        result = xdfs_xio_data_descriptor_set(data_desc, "offset", text);
        break;
    case GLOBUS_XIO_DD_GET_OFFSET:
        result = xdfs_xio_data_descriptor_get(data_desc, "offset", text, sizeof(text));
        if (result == GLOBUS_SUCCESS)
            *va_arg(arguments, globus_off_t *) = text[0] != 0 ? (globus_off_t) strtoll(text, NULL, 10) : -1;
        break;
    }
    va_end(arguments);
    return result;
}

#ifdef __cplusplus
}
#endif

#endif
