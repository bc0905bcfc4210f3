/* Registered calls, calls with vectors, cancels and the close of a server that waits, by the names of Globus XIO: with its
 * headers and its library the program ends as with ours. */
#include <assert.h>
#include <pthread.h>
#include <string.h>
#include "globus_check.h"

/* What a callback was told, which its starter waits for. */
struct told {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int times;
    globus_result_t result;
    globus_size_t nbytes;
    globus_xio_handle_t handle;
};

#define TOLD {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, GLOBUS_SUCCESS, 0, NULL}

static void tell(struct told *told, globus_result_t result, globus_size_t nbytes, globus_xio_handle_t handle)
{
    pthread_mutex_lock(&told->mutex);
    told->times++;
    told->result = result;
    told->nbytes = nbytes;
    told->handle = handle;
    pthread_cond_signal(&told->changed);
    pthread_mutex_unlock(&told->mutex);
}

static void wait_for(struct told *told)
{
    pthread_mutex_lock(&told->mutex);
    while (told->times == 0)
        pthread_cond_wait(&told->changed, &told->mutex);
    assert(told->times == 1);
    told->times = 0;
    pthread_mutex_unlock(&told->mutex);
}

static void on_event(globus_xio_handle_t handle, globus_result_t result, void *user_arg)
{
    tell(user_arg, result, 0, handle);
}

static void on_accept(globus_xio_server_t server, globus_xio_handle_t handle, globus_result_t result, void *user_arg)
{
    (void) server;
    tell(user_arg, result, 0, handle);
}

static void on_data(globus_xio_handle_t handle, globus_result_t result, globus_byte_t *buffer, globus_size_t length,
    globus_size_t nbytes, globus_xio_data_descriptor_t data_desc, void *user_arg)
{
    (void) data_desc;
    assert(buffer != NULL && nbytes <= length);
    tell(user_arg, result, nbytes, handle);
}

static void on_vector(globus_xio_handle_t handle, globus_result_t result, globus_xio_iovec_t *iovec, int count,
    globus_size_t nbytes, globus_xio_data_descriptor_t data_desc, void *user_arg)
{
    (void) data_desc;
    assert(iovec != NULL && count == 2);
    tell(user_arg, result, nbytes, handle);
}

/* The other end sends what it is given, in two parts, and reads the same back. */
static void move_vectors(globus_xio_handle_t client, globus_xio_handle_t peer)
{
    struct told sent = TOLD, received = TOLD;
    char first[] = "regis", second[] = "tered", head[3], tail[7];
    globus_xio_iovec_t from[2] = {{first, 5}, {second, 5}}, into[2] = {{head, 3}, {tail, 7}};
    globus_size_t nbytes;

    OK(globus_xio_register_readv(peer, into, 2, 10, NULL, on_vector, &received));
    OK(globus_xio_register_writev(client, from, 2, 10, NULL, on_vector, &sent));
    wait_for(&sent);
    wait_for(&received);
    OK(sent.result);
    OK(received.result);
    assert(sent.nbytes == 10 && received.nbytes == 10 && received.handle == peer);
    assert(memcmp(head, "reg", 3) == 0 && memcmp(tail, "istered", 7) == 0);
    memset(head, 0, sizeof(head));
    memset(tail, 0, sizeof(tail));
    OK(globus_xio_writev(peer, from, 2, 10, &nbytes, NULL));
    assert(nbytes == 10);
    OK(globus_xio_readv(client, into, 2, 10, &nbytes, NULL));
    assert(nbytes == 10 && memcmp(head, "reg", 3) == 0 && memcmp(tail, "istered", 7) == 0);
}

/* A read that nobody answers is cancelled, and the next one gets what comes then. */
static void cancel(globus_xio_handle_t client, globus_xio_handle_t peer)
{
    struct told read = TOLD, written = TOLD;
    globus_byte_t buffer[8] = "", bytes[] = "after";

    OK(globus_xio_register_read(client, buffer, sizeof(buffer), 1, NULL, on_data, &read));
    OK(globus_xio_handle_cancel_operations(client, GLOBUS_XIO_CANCEL_READ));
    wait_for(&read);
    assert(globus_xio_error_is_canceled(read.result));
    OK(globus_xio_register_write(peer, bytes, 5, 5, NULL, on_data, &written));
    wait_for(&written);
    OK(written.result);
    OK(globus_xio_register_read(client, buffer, sizeof(buffer), 5, NULL, on_data, &read));
    wait_for(&read);
    OK(read.result);
    assert(read.nbytes == 5 && memcmp(buffer, "after", 5) == 0);
}

int main(int argc, char *argv[])
{
    struct told accepted = TOLD, opened = TOLD, closed = TOLD;
    globus_xio_driver_t tcp;
    globus_xio_stack_t stack;
    globus_xio_attr_t attr;
    globus_xio_server_t server;
    globus_xio_handle_t client, peer;
    char *contact;

    (void) argv;
    assert(argc == 2);
    assert(globus_module_activate(GLOBUS_XIO_MODULE) == GLOBUS_SUCCESS);
    OK(globus_xio_driver_load("tcp", &tcp));
    OK(globus_xio_stack_init(&stack, NULL));
    OK(globus_xio_stack_push_driver(stack, tcp));
    OK(globus_xio_attr_init(&attr));
    OK(globus_xio_server_create(&server, attr, stack));
    OK(globus_xio_server_get_contact_string(server, &contact));
    OK(globus_xio_server_register_accept(server, on_accept, &accepted));
    OK(globus_xio_handle_create(&client, stack));
    OK(globus_xio_register_open(client, contact, attr, on_event, &opened));
    wait_for(&accepted);
    OK(accepted.result);
    peer = accepted.handle;
    OK(globus_xio_open(peer, NULL, attr));
    wait_for(&opened);
    OK(opened.result);
    move_vectors(client, peer);
    cancel(client, peer);

    /* Who waits for a client when the server is closed is told so. */
    OK(globus_xio_server_register_accept(server, on_accept, &accepted));
    OK(globus_xio_server_close(server));
    wait_for(&accepted);
    assert(accepted.result != GLOBUS_SUCCESS);

    OK(globus_xio_register_close(client, NULL, on_event, &closed));
    wait_for(&closed);
    OK(closed.result);
    OK(globus_xio_close(peer, NULL));
    free(contact);
    OK(globus_xio_attr_destroy(attr));
    OK(globus_xio_stack_destroy(stack));
    assert(globus_module_deactivate(GLOBUS_XIO_MODULE) == GLOBUS_SUCCESS);
    puts("done");
    return 0;
}
