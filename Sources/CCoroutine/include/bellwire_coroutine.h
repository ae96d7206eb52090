#pragma once
#include <stdbool.h>

/// A piece of work with a stack of its own, which can stand still in the middle of a call and go on later. Everything
/// stays in one thread: `resume` comes back when the work yields or ends.
typedef struct bellwire_coroutine bellwire_coroutine;

/// Makes a coroutine that will call `body(argument)`. Returns NULL when there is no memory for its stack.
bellwire_coroutine *bellwire_coroutine_create(void (*body)(void *argument), void *argument);

/// Goes on with the work until it yields or ends. Returns whether it has ended.
bool bellwire_coroutine_resume(bellwire_coroutine *coroutine);

/// Within a coroutine: comes back to the one who resumed it.
void bellwire_coroutine_yield(bellwire_coroutine *coroutine);

/// Frees a coroutine that has ended, or has not begun.
void bellwire_coroutine_destroy(bellwire_coroutine *coroutine);
