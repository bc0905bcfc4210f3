/* The calls that the papers' sample does not make. The first argument says which case, the second a scratch folder. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "xdfs_xio.h"

#define OK(call) check((call), #call, __LINE__)
#define FAILS(kind, call) fails((call), kind, #call, __LINE__)

static void check(xdfs_xio_result_t result, const char *call, int line)
{
    char text[300];

    if (result == XDFS_XIO_SUCCESS)
        return;
    xdfs_xio_result_text(result, text, sizeof(text));
    fprintf(stderr, "line %d: %s: %s\n", line, call, text);
    exit(1);
}

static void fails(xdfs_xio_result_t result, int kind, const char *call, int line)
{
    char text[300];

    if (XDFS_XIO_KIND(result) == kind)
        return;
    xdfs_xio_result_text(result, text, sizeof(text));
    fprintf(stderr, "line %d: %s: kind %d and not %d: %s\n", line, call, XDFS_XIO_KIND(result), kind, text);
    exit(1);
}

/* What callbacks tell, in order. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static char told[200];
static xdfs_xio_handle_t accepted;

/* The memory that was given to what is called "written", and to what is called "read". */
static unsigned char *written_from, *read_into[2];

static void tell(const char *what)
{
    pthread_mutex_lock(&lock);
    assert(strlen(told) + strlen(what) + 1 < sizeof(told));
    strcat(told, what);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Waits until that was told, whatever was told beside it. */
static void wait_for(const char *what)
{
    struct timespec by;
    int late = 0;

    clock_gettime(CLOCK_REALTIME, &by);
    by.tv_sec += 30;
    pthread_mutex_lock(&lock);
    while (strstr(told, what) == NULL && !late)
        late = pthread_cond_timedwait(&changed, &lock, &by);
    if (late) {
        fprintf(stderr, "waited for '%s' and heard '%s'\n", what, told);
        exit(1);
    }
    pthread_mutex_unlock(&lock);
}

static void on_open(xdfs_xio_handle_t handle, xdfs_xio_result_t result, void *user_arg)
{
    unsigned char byte;
    size_t nbytes = 7;

    OK(result);
    FAILS(XDFS_XIO_ERROR_USAGE, xdfs_xio_read(handle, &byte, 1, 1, &nbytes, NULL));
    assert(nbytes == 0);
    tell((const char *) user_arg);
}

static void on_close(xdfs_xio_handle_t handle, xdfs_xio_result_t result, void *user_arg)
{
    OK(result);
    (void) handle;
    tell((const char *) user_arg);
}

static void on_accept(xdfs_xio_server_t server, xdfs_xio_handle_t handle, xdfs_xio_result_t result, void *user_arg)
{
    OK(result);
    (void) server;
    accepted = handle;
    OK(xdfs_xio_register_open(handle, NULL, NULL, on_open, user_arg));
}

static void on_data(
    xdfs_xio_handle_t handle, xdfs_xio_result_t result, unsigned char *buffer, size_t length, size_t nbytes,
    xdfs_xio_data_descriptor_t data_desc, void *user_arg)
{
    char text[60];

    (void) handle;
    (void) data_desc;
    assert(nbytes <= length && (nbytes == 0 || buffer != NULL));
    assert(strcmp((const char *) user_arg, "written") != 0 || buffer == written_from);
    snprintf(text, sizeof(text), "%s %d %zu;", (const char *) user_arg, XDFS_XIO_KIND(result), nbytes);
    tell(text);
}

static void on_vectors(
    xdfs_xio_handle_t handle, xdfs_xio_result_t result, xdfs_xio_iovec_t *iovec, int count, size_t nbytes,
    xdfs_xio_data_descriptor_t data_desc, void *user_arg)
{
    assert(count == 2 && iovec[1].iov_len == 6);
    assert(iovec[0].iov_base == read_into[0] && iovec[1].iov_base == read_into[1]);
    on_data(handle, result, (unsigned char *) iovec[0].iov_base, 100, nbytes, data_desc, user_arg);
}

/* A stack of the drivers of a text, with commas between them. */
static xdfs_xio_stack_t stack_of_text(const char *text)
{
    xdfs_xio_driver_t driver;
    xdfs_xio_stack_t stack;
    char names[100], *name, *rest = names;

    assert(strlen(text) < sizeof(names));
    strcpy(names, text);
    OK(xdfs_xio_stack_init(&stack, NULL));
    while ((name = strsep(&rest, ",")) != NULL) {
        OK(xdfs_xio_driver_load(name, &driver));
        OK(xdfs_xio_stack_push_driver(stack, driver));
    }
    return stack;
}

static xdfs_xio_stack_t stack_of(const char *first, const char *second)
{
    char text[100];

    snprintf(text, sizeof(text), second != NULL ? "%s,%s" : "%s", first, second);
    return stack_of_text(text);
}

/* A server with a registered accept, and a client with a registered open. */
static xdfs_xio_handle_t connect_both(xdfs_xio_server_t *server, xdfs_xio_attr_t client_attr)
{
    xdfs_xio_stack_t stack = stack_of("tcp", "noop");
    xdfs_xio_attr_t attr;
    xdfs_xio_handle_t client;
    char contact[100];

    OK(xdfs_xio_attr_init(&attr));
    OK(xdfs_xio_attr_set(attr, NULL, "contact", "127.0.0.1:0"));
    OK(xdfs_xio_server_create(server, attr, stack));
    OK(xdfs_xio_server_contact(*server, contact, sizeof(contact)));
    OK(xdfs_xio_server_register_accept(*server, on_accept, (void *) "accepted;"));
    FAILS(XDFS_XIO_ERROR_TOO_MANY, xdfs_xio_server_register_accept(*server, on_accept, NULL));
    OK(xdfs_xio_handle_create(&client, stack));
    OK(xdfs_xio_register_open(client, contact, client_attr, on_open, (void *) "opened;"));
    OK(xdfs_xio_stack_destroy(stack));
    OK(xdfs_xio_attr_destroy(attr));
    wait_for("accepted;");
    wait_for("opened;");
    return client;
}

static void registered(void)
{
    xdfs_xio_server_t server;
    xdfs_xio_handle_t client = connect_both(&server, NULL);
    unsigned char out[] = "hello world", first[5], second[6], *none = NULL;
    xdfs_xio_iovec_t parts[2] = { { first, 5 }, { second, 6 } };
    size_t nbytes;

    written_from = out;
    read_into[0] = first;
    read_into[1] = second;
    OK(xdfs_xio_register_readv(accepted, parts, 2, 11, NULL, on_vectors, (void *) "read"));
    OK(xdfs_xio_register_write(client, out, 11, 11, NULL, on_data, (void *) "written"));
    wait_for("written 0 11;");
    wait_for("read 0 11;");
    assert(memcmp(first, "hello", 5) == 0 && memcmp(second, " world", 6) == 0);
    /* The same the other way round: the parts are the caller's again when they were written. */
    OK(xdfs_xio_register_writev(accepted, parts, 2, 11, NULL, on_vectors, (void *) "sent"));
    wait_for("sent 0 11;");
    OK(xdfs_xio_read(client, out, 11, 11, &nbytes, NULL));
    assert(nbytes == 11 && memcmp(out, "hello world", 11) == 0);
    FAILS(XDFS_XIO_ERROR_USAGE, xdfs_xio_register_writev(accepted, parts, -1, 0, NULL, on_vectors, NULL));
    /* Both at once, and what cannot be meant. */
    OK(xdfs_xio_writev(accepted, parts, 2, 0, &nbytes, NULL));
    assert(nbytes == 11);
    FAILS(XDFS_XIO_ERROR_USAGE, xdfs_xio_write(accepted, out, 11, 12, &nbytes, NULL));
    FAILS(XDFS_XIO_ERROR_USAGE, xdfs_xio_read(client, out, 11, 12, &nbytes, NULL));
    FAILS(XDFS_XIO_ERROR_USAGE, xdfs_xio_read(client, none, 11, 1, &nbytes, NULL));
    FAILS(XDFS_XIO_ERROR_USAGE, xdfs_xio_readv(client, parts, -1, 1, &nbytes, NULL));
    memset(out, 0, sizeof(out));
    OK(xdfs_xio_read(client, out, 11, 11, &nbytes, NULL));
    assert(nbytes == 11 && strcmp((char *) out, "hello world") == 0);
    /* The close tells what is outstanding first. */
    OK(xdfs_xio_register_read(client, out, 11, 1, NULL, on_data, (void *) "last"));
    OK(xdfs_xio_register_close(client, NULL, on_close, (void *) "closed;"));
    wait_for("last 4 0;closed;");
    FAILS(XDFS_XIO_ERROR_USAGE, xdfs_xio_close(client, NULL));
    FAILS(XDFS_XIO_ERROR_END, xdfs_xio_read(accepted, out, 11, 1, &nbytes, NULL));
    assert(nbytes == 0);
    OK(xdfs_xio_close(accepted, NULL));
    OK(xdfs_xio_server_close(server));
    FAILS(XDFS_XIO_ERROR_USAGE, xdfs_xio_server_close(server));
}

static void cancelled(void)
{
    xdfs_xio_server_t server;
    xdfs_xio_attr_t attr;
    xdfs_xio_handle_t client;
    unsigned char in[10], out[] = "abc";
    size_t nbytes;

    OK(xdfs_xio_attr_init(&attr));
    OK(xdfs_xio_attr_set(attr, NULL, "read_timeout", "50ms"));
    client = connect_both(&server, attr);
    OK(xdfs_xio_register_read(accepted, in, 10, 10, NULL, on_data, (void *) "one"));
    OK(xdfs_xio_write(client, out, 3, 3, NULL, NULL));
    FAILS(XDFS_XIO_ERROR_USAGE, xdfs_xio_handle_cancel_operations(accepted, 0x40));
    OK(xdfs_xio_handle_cancel_operations(accepted, XDFS_XIO_CANCEL_READ | XDFS_XIO_CANCEL_WRITE));
    wait_for("one 4 ");
    /* What came before the cancel is in the buffer, and the rest comes next. */
    nbytes = strstr(told, "one 4 3;") != NULL ? 3 : 0;
    if (nbytes == 0)
        OK(xdfs_xio_read(accepted, in, 3, 3, &nbytes, NULL));
    assert(memcmp(in, "abc", 3) == 0);
    FAILS(XDFS_XIO_ERROR_TIMED_OUT, xdfs_xio_read(client, in, 10, 1, &nbytes, NULL));
    assert(nbytes == 0);
    OK(xdfs_xio_close(client, NULL));
    OK(xdfs_xio_close(accepted, NULL));
}

static void on_cancelled(xdfs_xio_handle_t handle, xdfs_xio_result_t result, void *user_arg)
{
    (void) handle;
    FAILS(XDFS_XIO_ERROR_CANCELLED, result);
    tell((const char *) user_arg);
}

/* An opening that nobody answers: the listener's queue is full. */
static void cancelled_open(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t size = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0), only = socket(AF_INET, SOCK_STREAM, 0);
    xdfs_xio_stack_t stack = stack_of("tcp", "noop");
    xdfs_xio_handle_t handle;
    char contact[40];

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert(bind(listener, (struct sockaddr *) &address, size) == 0 && listen(listener, 0) == 0);
    assert(getsockname(listener, (struct sockaddr *) &address, &size) == 0);
    assert(connect(only, (struct sockaddr *) &address, size) == 0);
    snprintf(contact, sizeof(contact), "127.0.0.1:%d", ntohs(address.sin_port));
    OK(xdfs_xio_handle_create(&handle, stack));
    OK(xdfs_xio_register_open(handle, contact, NULL, on_cancelled, (void *) "cancelled;"));
    OK(xdfs_xio_handle_cancel_operations(handle, XDFS_XIO_CANCEL_OPEN));
    wait_for("cancelled;");
    /* There is nothing left to cancel, and nothing to do but to close. */
    OK(xdfs_xio_handle_cancel_operations(handle, XDFS_XIO_CANCEL_OPEN));
    FAILS(XDFS_XIO_ERROR_CLOSED, xdfs_xio_read(handle, (unsigned char *) contact, 1, 1, NULL, NULL));
    OK(xdfs_xio_register_close(handle, NULL, on_close, (void *) "closed;"));
    wait_for("cancelled;closed;");
    assert(strcmp(told, "cancelled;closed;") == 0);
    close(only);
    close(listener);
}

/* A handle of the stack that a scheme names talks to a server of that stack. A certificate is in the folder. */
static void url_of(const char *scheme, const char *names, const char *folder)
{
    xdfs_xio_stack_t stack = stack_of_text(names), copy;
    xdfs_xio_server_t server;
    xdfs_xio_handle_t client, peer;
    xdfs_xio_driver_t driver;
    xdfs_xio_attr_t attr, client_attr;
    unsigned char byte = 'x';
    char contact[100], url[120], pem[400], key[400];
    size_t nbytes;

    OK(xdfs_xio_attr_init(&attr));
    OK(xdfs_xio_attr_init(&client_attr));
    OK(xdfs_xio_attr_set(attr, NULL, "contact", "127.0.0.1:0"));
    if (strstr(names, "tls") != NULL) {
        snprintf(pem, sizeof(pem), "%s/certificate.pem", folder);
        snprintf(key, sizeof(key), "%s/key.pem", folder);
        OK(xdfs_xio_driver_load("tls", &driver));
        OK(xdfs_xio_attr_set(attr, driver, "certificate", pem));
        OK(xdfs_xio_attr_set(attr, driver, "key", key));
        OK(xdfs_xio_attr_set(client_attr, driver, "trust", pem));
    }
    /* A copy is a stack of its own. */
    OK(xdfs_xio_stack_copy(&copy, stack));
    OK(xdfs_xio_stack_destroy(stack));
    FAILS(XDFS_XIO_ERROR_USAGE, xdfs_xio_stack_copy(&stack, stack));
    OK(xdfs_xio_server_create(&server, attr, copy));
    OK(xdfs_xio_stack_destroy(copy));
    OK(xdfs_xio_server_contact(server, contact, sizeof(contact)));
    snprintf(url, sizeof(url), "%s://%s/path", scheme, contact);
    OK(xdfs_xio_handle_create_from_url(&client, url, client_attr));
    told[0] = 0;
    OK(xdfs_xio_register_open(client, url, client_attr, on_open, (void *) "opened;"));
    OK(xdfs_xio_server_accept(&peer, server));
    OK(xdfs_xio_open(peer, NULL, NULL));
    wait_for("opened;");
    OK(xdfs_xio_write(peer, &byte, 1, 1, &nbytes, NULL));
    byte = 0;
    OK(xdfs_xio_read(client, &byte, 1, 1, &nbytes, NULL));
    assert(nbytes == 1 && byte == 'x');
    OK(xdfs_xio_close(client, NULL));
    /* The peer may find that nobody is there to hear of its end. */
    (void) xdfs_xio_close(peer, NULL);
    OK(xdfs_xio_server_close(server));
    OK(xdfs_xio_attr_destroy(attr));
    OK(xdfs_xio_attr_destroy(client_attr));
}

static void urls(const char *folder)
{
    url_of("tcp", "tcp", folder);
    url_of("telnet", "tcp,telnet", folder);
    url_of("http", "tcp,http", folder);
    url_of("https", "tcp,tls,http", folder);
    url_of("skeleton_block", "skeleton_block", folder);
    url_of("skeleton_block", "tcp", folder);
}

static void files(const char *folder)
{
    xdfs_xio_stack_t stack = stack_of("file", NULL);
    xdfs_xio_driver_t file;
    xdfs_xio_attr_t attr, copy;
    xdfs_xio_handle_t handle;
    xdfs_xio_data_descriptor_t where;
    char path[400], text[20];
    unsigned char out[] = "world", in[20];
    size_t nbytes;

    snprintf(path, sizeof(path), "file:%s/made", folder);
    OK(xdfs_xio_driver_load("file", &file));
    OK(xdfs_xio_attr_init(&attr));
    FAILS(XDFS_XIO_ERROR_USAGE, xdfs_xio_attr_set(attr, file, "create", "true;offset=3"));
    FAILS(XDFS_XIO_ERROR_USAGE, xdfs_xio_attr_set(attr, file, "creat", "true"));
    OK(xdfs_xio_attr_set(attr, file, "create", "false"));
    OK(xdfs_xio_attr_set(attr, file, "create", "true"));
    OK(xdfs_xio_attr_copy(&copy, attr));
    OK(xdfs_xio_attr_destroy(attr));
    OK(xdfs_xio_handle_create(&handle, stack));
    FAILS(XDFS_XIO_ERROR_USAGE, xdfs_xio_read(handle, in, 1, 1, &nbytes, NULL));
    FAILS(XDFS_XIO_ERROR_NOT_FOUND, xdfs_xio_open(handle, path, NULL));
    OK(xdfs_xio_close(handle, NULL));
    OK(xdfs_xio_handle_create_from_url(&handle, path, copy));
    OK(xdfs_xio_open(handle, path, copy));
    FAILS(XDFS_XIO_ERROR_USAGE, xdfs_xio_open(handle, path, copy));
    /* A write with an offset, and one without. */
    OK(xdfs_xio_data_descriptor_init(&where, handle));
    OK(xdfs_xio_data_descriptor_set(where, "offset", "6"));
    FAILS(XDFS_XIO_ERROR_USAGE, xdfs_xio_data_descriptor_set(where, "offset", "-1"));
    FAILS(XDFS_XIO_ERROR_USAGE, xdfs_xio_data_descriptor_set(where, "place", "1"));
    OK(xdfs_xio_write(handle, out, 5, 5, &nbytes, where));
    memcpy(out, "hello", 5);
    OK(xdfs_xio_write(handle, out, 5, 5, &nbytes, NULL));
    OK(xdfs_xio_handle_control(handle, file, "size", NULL, text, sizeof(text)));
    assert(strcmp(text, "11") == 0);
    OK(xdfs_xio_handle_control(handle, NULL, "seek", "0", NULL, 0));
    OK(xdfs_xio_read(handle, in, 20, 11, &nbytes, where));
    assert(nbytes == 11 && memcmp(in, "hello\0world", 11) == 0);
    FAILS(XDFS_XIO_ERROR_END, xdfs_xio_read(handle, in, 20, 1, &nbytes, where));
    OK(xdfs_xio_data_descriptor_get(where, "end", text, 3));
    assert(strcmp(text, "tr") == 0);
    FAILS(XDFS_XIO_ERROR_UNSUPPORTED, xdfs_xio_handle_control(handle, NULL, "dance", NULL, NULL, 0));
    OK(xdfs_xio_close(handle, NULL));
    OK(xdfs_xio_data_descriptor_destroy(where));
}

static void errors(void)
{
    xdfs_xio_driver_t driver = NULL;
    xdfs_xio_stack_t stack;
    xdfs_xio_handle_t handle;
    xdfs_xio_result_t first, result = 0;
    char text[200];
    int at;

    FAILS(XDFS_XIO_ERROR_USAGE, xdfs_xio_driver_load(NULL, &driver));
    FAILS(XDFS_XIO_ERROR_USAGE, xdfs_xio_driver_load("\xff", &driver));
    FAILS(XDFS_XIO_ERROR_USAGE, xdfs_xio_driver_load("tcp", NULL));
    first = xdfs_xio_driver_load("nosuch", &driver);
    assert(xdfs_xio_result_text(first, text, sizeof(text)) > 20);
    assert(strstr(text, "driver nosuch") != NULL && strstr(text, "nosuch") != NULL);
    assert(xdfs_xio_result_text(first, text, 4) > 20 && strcmp(text, "dri") == 0);
    for (at = 0; at < 300; at++)
        result = xdfs_xio_driver_load("nosuch", &driver);
    assert(result != first);
    xdfs_xio_result_text(first, text, sizeof(text));
    assert(strcmp(text, "the call cannot be meant") == 0);
    /* One kind of thing is not another, and what is gone stays gone. */
    stack = stack_of("tcp", NULL);
    FAILS(XDFS_XIO_ERROR_USAGE, xdfs_xio_handle_create(&handle, (xdfs_xio_stack_t) driver));
    FAILS(XDFS_XIO_ERROR_USAGE, xdfs_xio_close((xdfs_xio_handle_t) stack, NULL));
    OK(xdfs_xio_driver_load("noop", &driver));
    OK(xdfs_xio_stack_destroy(stack));
    FAILS(XDFS_XIO_ERROR_USAGE, xdfs_xio_stack_push_driver(stack, driver));
    OK(xdfs_xio_stack_init(&stack, NULL));
    FAILS(XDFS_XIO_ERROR_USAGE, xdfs_xio_stack_push_driver(stack, driver));
    FAILS(XDFS_XIO_ERROR_USAGE, xdfs_xio_handle_create_from_url(&handle, "nosuch://host/", NULL));
    FAILS(XDFS_XIO_ERROR_CONTACT, xdfs_xio_handle_create_from_url(&handle, "http://[host", NULL));
    OK(xdfs_xio_handle_create_from_url(&handle, "http", NULL));
    OK(xdfs_xio_driver_unload(driver));
    FAILS(XDFS_XIO_ERROR_USAGE, xdfs_xio_driver_unload(driver));
    /* Deactivation takes everything away. */
    OK(xdfs_xio_activate());
    OK(xdfs_xio_deactivate());
    OK(xdfs_xio_close(handle, NULL));
    OK(xdfs_xio_handle_create_from_url(&handle, "http", NULL));
    OK(xdfs_xio_deactivate());
    FAILS(XDFS_XIO_ERROR_USAGE, xdfs_xio_close(handle, NULL));
    FAILS(XDFS_XIO_ERROR_USAGE, xdfs_xio_stack_init(&stack, NULL));
    FAILS(XDFS_XIO_ERROR_USAGE, xdfs_xio_deactivate());
    OK(xdfs_xio_activate());
}

int main(int argc, char *argv[])
{
    xdfs_xio_stack_t stack;

    assert(argc == 3);
    FAILS(XDFS_XIO_ERROR_USAGE, xdfs_xio_stack_init(&stack, NULL));
    OK(xdfs_xio_activate());
    if (strcmp(argv[1], "registered") == 0)
        registered();
    else if (strcmp(argv[1], "cancelled") == 0)
        cancelled();
    else if (strcmp(argv[1], "cancelled_open") == 0)
        cancelled_open();
    else if (strcmp(argv[1], "urls") == 0)
        urls(argv[2]);
    else if (strcmp(argv[1], "files") == 0)
        files(argv[2]);
    else if (strcmp(argv[1], "errors") == 0)
        errors();
    else
        assert(0);
    OK(xdfs_xio_deactivate());
    puts("done");
    return 0;
}
