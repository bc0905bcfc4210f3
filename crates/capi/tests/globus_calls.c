/* Calls of Globus XIO that have further arguments by their command. The argument is a scratch folder. It compiles with
 * the headers of Globus as well; what it finds out about errors, and about the text of options, is ours. */
#include "globus_check.h"

#ifdef XDFS_GLOBUS_XIO_H
#define KIND(result) XDFS_XIO_KIND(result)
#else
#include "globus_xio_file_driver.h"
#include "globus_xio_tcp_driver.h"
#define KIND(result) ((int) (result))
#define XDFS_XIO_ERROR_UNSUPPORTED 1
#define XDFS_XIO_ERROR_TIMED_OUT 1
#endif

static void on_open(globus_xio_handle_t handle, globus_result_t result, void *user_arg)
{
    (void) handle;
    (void) user_arg;
    OK(result);
}

int main(int argc, char *argv[])
{
    globus_xio_driver_t tcp, file;
    globus_xio_stack_t stack;
    globus_xio_attr_t attr;
    globus_xio_server_t server;
    globus_xio_handle_t client, peer;
    globus_xio_data_descriptor_t data_desc;
    globus_reltime_t limit;
    globus_byte_t buffer[10] = "abc";
    globus_size_t nbytes;
    globus_off_t offset = 0;
    globus_result_t result;
    char path[400], *contact, *local, *remote;

    assert(argc == 2);
    assert(globus_module_activate(GLOBUS_XIO_MODULE) == GLOBUS_SUCCESS);
    OK(globus_xio_driver_load("tcp", &tcp));
    OK(globus_xio_stack_init(&stack, NULL));
    OK(globus_xio_stack_push_driver(stack, tcp));
    OK(globus_xio_attr_init(&attr));
    OK(globus_xio_attr_cntl(attr, tcp, GLOBUS_XIO_TCP_SET_PORT, 0));
    OK(globus_xio_attr_cntl(attr, tcp, GLOBUS_XIO_TCP_SET_NODELAY, GLOBUS_TRUE));
    OK(globus_xio_attr_cntl(attr, tcp, GLOBUS_XIO_TCP_SET_SNDBUF, 65536));
    GlobusTimeReltimeSet(limit, 0, 50000);
    OK(globus_xio_attr_cntl(attr, NULL, GLOBUS_XIO_ATTR_SET_TIMEOUT_READ, NULL, &limit, NULL));
    assert(globus_xio_attr_cntl(attr, tcp, 9999, 1) != GLOBUS_SUCCESS);
    OK(globus_xio_server_create(&server, attr, stack));
    OK(globus_xio_server_get_contact_string(server, &contact));
    OK(globus_xio_server_cntl(server, tcp, GLOBUS_XIO_GET_LOCAL_CONTACT, &local));
    assert(strcmp(local, contact) == 0);
    free(local);
    OK(globus_xio_server_cntl(server, GLOBUS_XIO_QUERY, GLOBUS_XIO_GET_LOCAL_NUMERIC_CONTACT, &local));
    assert(strcmp(local, contact) == 0);
    free(local);
    assert(KIND(globus_xio_server_cntl(server, tcp, GLOBUS_XIO_SEEK, (globus_off_t) 1))
        == XDFS_XIO_ERROR_UNSUPPORTED);
    OK(globus_xio_handle_create(&client, stack));
    OK(globus_xio_register_open(client, contact, attr, on_open, NULL));
    OK(globus_xio_server_accept(&peer, server));
    OK(globus_xio_open(peer, NULL, attr));
    OK(globus_xio_write(peer, buffer, 3, 3, &nbytes, NULL));
    result = globus_xio_read(peer, buffer, sizeof(buffer), 1, &nbytes, NULL);
    assert(KIND(result) == XDFS_XIO_ERROR_TIMED_OUT && !globus_xio_error_is_eof(result));
    OK(globus_xio_handle_cntl(peer, tcp, GLOBUS_XIO_GET_LOCAL_CONTACT, &local));
    OK(globus_xio_handle_cntl(client, GLOBUS_XIO_QUERY, GLOBUS_XIO_GET_REMOTE_CONTACT, &remote));
    assert(strcmp(local, remote) == 0);
    free(contact);
    free(local);
    free(remote);
    OK(globus_xio_read(client, buffer, sizeof(buffer), 3, &nbytes, NULL));
    assert(nbytes == 3);
    OK(globus_xio_close(peer, NULL));
    result = globus_xio_read(client, buffer, sizeof(buffer), 1, &nbytes, NULL);
    assert(globus_xio_error_is_eof(result) && nbytes == 0);
    OK(globus_xio_close(client, NULL));
    OK(globus_xio_server_close(server));
    assert(globus_xio_server_cntl(server, tcp, GLOBUS_XIO_GET_LOCAL_CONTACT, &local) != GLOBUS_SUCCESS);
    OK(globus_xio_stack_destroy(stack));

    OK(globus_xio_driver_load("file", &file));
    OK(globus_xio_stack_init(&stack, NULL));
    OK(globus_xio_stack_push_driver(stack, file));
    OK(globus_xio_attr_cntl(attr, file, GLOBUS_XIO_SET_STRING_OPTIONS, "create;truncate"));
    OK(globus_xio_handle_create(&client, stack));
    snprintf(path, sizeof(path), "%s/made", argv[1]);
    OK(globus_xio_open(client, path, attr));
    OK(globus_xio_data_descriptor_init(&data_desc, client));
    OK(globus_xio_data_descriptor_cntl(data_desc, NULL, GLOBUS_XIO_DD_GET_OFFSET, &offset));
    assert(offset == -1);
    OK(globus_xio_data_descriptor_cntl(data_desc, NULL, GLOBUS_XIO_DD_SET_OFFSET, (globus_off_t) 2));
    OK(globus_xio_data_descriptor_cntl(data_desc, NULL, GLOBUS_XIO_DD_GET_OFFSET, &offset));
    assert(offset == 2);
    OK(globus_xio_write(client, buffer, 3, 3, &nbytes, data_desc));
    OK(globus_xio_handle_cntl(client, file, GLOBUS_XIO_SEEK, (globus_off_t) 3));
    OK(globus_xio_read(client, buffer, 2, 2, &nbytes, NULL));
    assert(memcmp(buffer, "bc", 2) == 0);
    assert(globus_module_deactivate(GLOBUS_XIO_MODULE) == GLOBUS_SUCCESS);
    puts("done");
    return 0;
}
