/* Prints what a file has at the offsets that are given behind its URL, ten bytes of each. */
#include "globus_check.h"

int main(int argc, char *argv[])
{
    globus_xio_handle_t handle;
    globus_byte_t buffer[10];
    globus_size_t nbytes;
    int at;

    assert(argc > 1);
    assert(globus_module_activate(GLOBUS_XIO_MODULE) == GLOBUS_SUCCESS);
    OK(globus_xio_handle_create_from_url(&handle, argv[1], NULL, NULL));
    OK(globus_xio_open(handle, argv[1], NULL));
    for (at = 2; at < argc; at++) {
        globus_off_t offset = atoll(argv[at]);

        OK(globus_xio_handle_cntl(handle, NULL, GLOBUS_XIO_GRIDFTP_SEEK, offset));
        OK(globus_xio_read(handle, buffer, sizeof(buffer), sizeof(buffer), &nbytes, NULL));
        assert(nbytes == sizeof(buffer));
        printf("%.10s\n", (const char *) buffer);
    }
    OK(globus_xio_close(handle, NULL));
    OK(globus_module_deactivate(GLOBUS_XIO_MODULE));
    return 0;
}
