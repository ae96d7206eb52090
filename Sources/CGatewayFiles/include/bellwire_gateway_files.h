#pragma once
#include <stddef.h>

/// A file that the gateway serves.
struct bellwire_file {
    const unsigned char *bytes;
    size_t size;
};

extern const struct bellwire_file bellwire_openapi_yaml;
extern const struct bellwire_file bellwire_admin_html;
extern const struct bellwire_file bellwire_admin_css;
extern const struct bellwire_file bellwire_admin_js;
