#include "bellwire_openssl.h"

/// Keeps OpenSSL from freeing its state when the process exits, because threads may still use OpenSSL then. Only the
/// first initialization counts, and any OpenSSL function initializes the library; so this call runs when the library is
/// loaded.
__attribute__((constructor)) static void keep_until_the_end(void) {
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}
