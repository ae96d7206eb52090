#include "bellwire_gateway_files.h"

/* In C, since `embedInCode` of SwiftPM writes an array literal: the Swift compiler takes some fifty seconds for 145,000
   elements. Swift's clang has `#embed` in all modes of C. */
#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char openapi_yaml[] = {
#embed "../Gateway/openapi.yaml"
};
static const unsigned char admin_html[] = {
#embed "../Gateway/AdminPage/admin.html"
};
static const unsigned char admin_css[] = {
#embed "../Gateway/AdminPage/admin.css"
};
static const unsigned char admin_js[] = {
#embed "../Gateway/AdminPage/admin.js"
};

const struct bellwire_file bellwire_openapi_yaml = {openapi_yaml, sizeof openapi_yaml};
const struct bellwire_file bellwire_admin_html = {admin_html, sizeof admin_html};
const struct bellwire_file bellwire_admin_css = {admin_css, sizeof admin_css};
const struct bellwire_file bellwire_admin_js = {admin_js, sizeof admin_js};
