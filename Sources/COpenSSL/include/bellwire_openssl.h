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

/// OpenSSL's macros, as constants and functions that Swift can use.
static const int bellwire_key_pair = EVP_PKEY_KEYPAIR;
static const int bellwire_public_key = EVP_PKEY_PUBLIC_KEY;
static inline int bellwire_tls_prepare(SSL_CTX *context) {
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
    return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
}
static inline int bellwire_tls_server_name(SSL *session, const char *name) {
    return SSL_set_tlsext_host_name(session, name);
}
