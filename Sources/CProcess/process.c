#define _GNU_SOURCE
#include "bellwire_process.h"
#include "bellwire_build_commit.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

pid_t bellwire_spawn_bound_child(const char *path, char *const argv[], int log_descriptor) {
    pid_t parent = getpid();
    pid_t child = fork();
    if (child != 0) return child;

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1); /* The parent died before the line above. */
    setpgid(0, 0);                     /* Ctrl-C in the terminal reaches only the parent, which then stops the child. */
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int null_descriptor = open("/dev/null", O_RDONLY);
    dup2(null_descriptor, 0);
    dup2(log_descriptor, 1);
    dup2(log_descriptor, 2);
    execv(path, argv);
    _exit(127);
}

const char *bellwire_commit(void) { return bellwire_build_commit(); }
