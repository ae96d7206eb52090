#include "bellwire_build_commit.h"

/* A target of its own, which no Swift target imports: a new commit compiles this file alone and links the programs. */
const char *bellwire_build_commit(void) { return BELLWIRE_COMMIT; }
