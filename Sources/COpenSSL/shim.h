#pragma once
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/param_build.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

/// Macros that Swift does not see.
static const int bellwire_key_pair = EVP_PKEY_KEYPAIR;
static const int bellwire_public_key = EVP_PKEY_PUBLIC_KEY;
