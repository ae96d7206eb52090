/* Memory that is given back holds nothing of use at once: who reads it all the same fails each time, and not by chance. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <string.h>

static void (*give_back)(void *);

__attribute__((constructor)) static void find(void) {
    give_back = (void (*)(void *))dlsym(RTLD_NEXT, "free");
}

void free(void *block) {
    if (!block || !give_back) return;
    memset(block, 0xDD, malloc_usable_size(block));
    give_back(block);
}
