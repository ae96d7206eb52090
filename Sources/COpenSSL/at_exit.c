#include "bellwire_openssl.h"

/// OpenSSL takes itself apart when the process exits, also under threads that still use it: not here. What it is told first counts, and
/// whichever of its functions is called first sets it up: so it is told when this is loaded.
__attribute__((constructor)) static void keep_until_the_end(void) {
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}
