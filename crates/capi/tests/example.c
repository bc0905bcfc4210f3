/*
 * The papers' sample, globus_xio_example.c, in our words: the same calls with the same arguments in the
 * same order. It is compiled unchanged with our headers and with those of libglobus-xio-dev.
 */
#include "globus_xio.h"

int main(int argc, char *argv[])
{
    globus_result_t res;
    globus_xio_driver_t driver;
    globus_xio_stack_t stack;
    globus_xio_handle_t handle;
    globus_size_t nbytes;
    char *contact_string;
    char *driver_name;
    char buf[256];

    assert(argc == 3);
    contact_string = argv[1];
    driver_name = argv[2];

    globus_module_activate(GLOBUS_XIO_MODULE);
    res = globus_xio_driver_load(driver_name, &driver);
    assert(res == GLOBUS_SUCCESS);
    res = globus_xio_stack_init(&stack, NULL);
    assert(res == GLOBUS_SUCCESS);
    res = globus_xio_stack_push_driver(stack, driver);
    assert(res == GLOBUS_SUCCESS);
    res = globus_xio_handle_create(&handle, stack);
    assert(res == GLOBUS_SUCCESS);
    res = globus_xio_open(handle, contact_string, NULL);
    assert(res == GLOBUS_SUCCESS);
    do {
        res = globus_xio_read(handle, (globus_byte_t *) buf, sizeof(buf) - 1, 1, &nbytes, NULL);
        if (nbytes > 0) {
            buf[nbytes] = '\0';
            fprintf(stderr, "%s", buf);
        }
    } while (res == GLOBUS_SUCCESS);
    globus_xio_close(handle, NULL);
    globus_module_deactivate(GLOBUS_XIO_MODULE);
    return 0;
}
