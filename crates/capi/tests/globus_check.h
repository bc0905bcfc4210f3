/* OK(call): a call by the names of Globus XIO that must succeed; else what is wrong with it is said, and the program ends. */
#include <stdio.h>
#include <stdlib.h>
#include "globus_xio.h"

#define OK(call) check((call), __LINE__)

static void check(globus_result_t result, int line)
{
    char *text;

    if (result == GLOBUS_SUCCESS)
        return;
    text = globus_error_print_friendly(globus_error_peek(result));
    fprintf(stderr, "line %d: %s\n", line, text);
    free(text);
    exit(1);
}
