#pragma once
#include <sys/types.h>

/// Starts `path` with `argv` (NULL-terminated) as a child process. The kernel ends the child when this process dies in
/// any way. Standard output and error go to `log_descriptor`, standard input is /dev/null. Must be called from a thread
/// that lives as long as this process, because the kernel ends the child when the calling thread ends. Returns the
/// process id, or -1 with errno.
pid_t bellwire_spawn_bound_child(const char *path, char *const argv[], int log_descriptor);

/// The first digits of the commit that was built, or `unknown`.
const char *bellwire_commit(void);
