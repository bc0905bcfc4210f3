/* Counts what a program asks of the allocator, for `xtask hops`: loaded in front of libc by LD_PRELOAD, it writes the
 * number of allocations to the file named by XDFS_HOPS_FILE when the program ends. Freeing is not counted. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_ulong count;

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

void *malloc(size_t size) { count++; return __libc_malloc(size); }
void *calloc(size_t items, size_t size) { count++; return __libc_calloc(items, size); }
void *realloc(void *old, size_t size) { count++; return __libc_realloc(old, size); }
void *aligned_alloc(size_t align, size_t size) { count++; return __libc_memalign(align, size); }
int posix_memalign(void **at, size_t align, size_t size) {
    count++;
    *at = __libc_memalign(align, size);
    return *at ? 0 : 12; /* ENOMEM */
}

__attribute__((destructor)) static void tell(void) {
    unsigned long counted = count;
    const char *path = getenv("XDFS_HOPS_FILE");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file, "%lu\n", counted);
        fclose(file);
    }
}
