#pragma once
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <time.h>

/// OpenSSL's macros, as constants and functions that Swift can use.
static const int bellwire_key_pair = EVP_PKEY_KEYPAIR;
static const int bellwire_public_key = EVP_PKEY_PUBLIC_KEY;
static inline int bellwire_tls_prepare(SSL_CTX *context) {
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
    return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
}
/// Returns the end of a certificate's validity, in Unix seconds; -1 when this time cannot be read.
static inline long long bellwire_certificate_end(const X509 *certificate) {
    struct tm end;
    if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) != 1) return -1;
    return (long long)timegm(&end);
}
static inline int bellwire_tls_server_name(SSL *session, const char *name) {
    return SSL_set_tlsext_host_name(session, name);
}
