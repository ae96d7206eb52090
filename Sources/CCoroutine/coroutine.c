#define _GNU_SOURCE
#include "bellwire_coroutine.h"
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

/* The sanitizers must be told when the stack changes, or they take it for an error. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ADDRESS_SANITIZER 1
#include <sanitizer/common_interface_defs.h>
#endif
#if __has_feature(thread_sanitizer)
#define WITH_THREAD_SANITIZER 1
#include <sanitizer/tsan_interface.h>
#endif
#endif

/* Unoptimised code with 64 levels of JSON needs some hundred kilobytes; what is not touched costs nothing. */
enum { STACK_SIZE = 1 << 20, GUARD_SIZE = 4096 };

struct bellwire_coroutine {
    ucontext_t own, resumer;
    void (*body)(void *argument);
    void *argument;
    char *stack;
    bool has_ended;
    struct bellwire_coroutine *next_free;
#ifdef WITH_ADDRESS_SANITIZER
    void *own_fake_stack;
    const void *resumer_stack;
    size_t resumer_stack_size;
#endif
#ifdef WITH_THREAD_SANITIZER
    void *own_fiber, *resumer_fiber;
#endif
};

/* Stacks are kept for the next coroutine: mapping one costs more than all that runs on it. One list per thread. */
static _Thread_local bellwire_coroutine *free_list;

static void switch_out(bellwire_coroutine *coroutine, bool is_last) {
#ifdef WITH_ADDRESS_SANITIZER
    __sanitizer_start_switch_fiber(
        is_last ? NULL : &coroutine->own_fake_stack, coroutine->resumer_stack, coroutine->resumer_stack_size);
#else
    (void)is_last;
#endif
#ifdef WITH_THREAD_SANITIZER
    __tsan_switch_to_fiber(coroutine->resumer_fiber, 0);
#endif
    swapcontext(&coroutine->own, &coroutine->resumer);
#ifdef WITH_ADDRESS_SANITIZER
    __sanitizer_finish_switch_fiber(
        coroutine->own_fake_stack, &coroutine->resumer_stack, &coroutine->resumer_stack_size);
#endif
}

/* makecontext passes ints only: a pointer comes in two halves. */
static void enter(unsigned int high, unsigned int low) {
    bellwire_coroutine *coroutine = (bellwire_coroutine *)(((uintptr_t)high << 32) | low);
#ifdef WITH_ADDRESS_SANITIZER
    __sanitizer_finish_switch_fiber(NULL, &coroutine->resumer_stack, &coroutine->resumer_stack_size);
#endif
    coroutine->body(coroutine->argument);
    coroutine->has_ended = true;
    switch_out(coroutine, true);
}

bellwire_coroutine *bellwire_coroutine_create(void (*body)(void *argument), void *argument) {
    bellwire_coroutine *coroutine = free_list;
    if (coroutine) {
        free_list = coroutine->next_free;
    } else {
        coroutine = calloc(1, sizeof *coroutine);
        if (!coroutine) return NULL;
        coroutine->stack =
            mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (coroutine->stack == MAP_FAILED) {
            free(coroutine);
            return NULL;
        }
        mprotect(coroutine->stack, GUARD_SIZE, PROT_NONE);
    }
    coroutine->body = body;
    coroutine->argument = argument;
    coroutine->has_ended = false;
    getcontext(&coroutine->own);
    coroutine->own.uc_stack.ss_sp = coroutine->stack;
    coroutine->own.uc_stack.ss_size = STACK_SIZE;
    coroutine->own.uc_link = NULL;
    uintptr_t address = (uintptr_t)coroutine;
    makecontext(
        &coroutine->own, (void (*)(void))enter, 2, (unsigned int)(address >> 32), (unsigned int)(address & 0xffffffff));
#ifdef WITH_THREAD_SANITIZER
    coroutine->own_fiber = __tsan_create_fiber(0);
#endif
    return coroutine;
}

bool bellwire_coroutine_resume(bellwire_coroutine *coroutine) {
#ifdef WITH_THREAD_SANITIZER
    coroutine->resumer_fiber = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(coroutine->own_fiber, 0);
#endif
#ifdef WITH_ADDRESS_SANITIZER
    void *fake_stack;
    __sanitizer_start_switch_fiber(&fake_stack, coroutine->stack, STACK_SIZE);
#endif
    swapcontext(&coroutine->resumer, &coroutine->own);
#ifdef WITH_ADDRESS_SANITIZER
    __sanitizer_finish_switch_fiber(fake_stack, NULL, NULL);
#endif
    return coroutine->has_ended;
}

void bellwire_coroutine_yield(bellwire_coroutine *coroutine) { switch_out(coroutine, false); }

void bellwire_coroutine_destroy(bellwire_coroutine *coroutine) {
#ifdef WITH_THREAD_SANITIZER
    __tsan_destroy_fiber(coroutine->own_fiber);
#endif
    coroutine->next_free = free_list;
    free_list = coroutine;
}
