#pragma once
#include <curl/curl.h>

/* curl's functions for options and results have variable argument lists, so Swift cannot call them. The functions below
   cover each type of argument. */
static inline CURLcode bellwire_curl_set_number(CURL *transfer, CURLoption option, long value) {
    return curl_easy_setopt(transfer, option, value);
}

static inline CURLcode bellwire_curl_set_size(CURL *transfer, CURLoption option, curl_off_t value) {
    return curl_easy_setopt(transfer, option, value);
}

/* curl copies the text. */
static inline CURLcode bellwire_curl_set_text(CURL *transfer, CURLoption option, const char *value) {
    return curl_easy_setopt(transfer, option, value);
}

/* The memory at `value` must outlive the transfer, except with CURLOPT_COPYPOSTFIELDS. */
static inline CURLcode bellwire_curl_set_pointer(CURL *transfer, CURLoption option, const void *value) {
    return curl_easy_setopt(transfer, option, value);
}

/* Swift does not see CURLVERSION_NOW. */
static inline const curl_version_info_data *bellwire_curl_version(void) {
    return curl_version_info(CURLVERSION_NOW);
}

/* Sets the callback that opens a socket, and the callback that decides whether a request may leave on a connection. */
static inline CURLcode bellwire_curl_set_judges(
    CURL *transfer, curl_opensocket_callback open_socket, curl_prereq_callback before_request, void *context) {
    CURLcode code = curl_easy_setopt(transfer, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    if (code == CURLE_OK) code = curl_easy_setopt(transfer, CURLOPT_OPENSOCKETDATA, context);
    if (code == CURLE_OK) code = curl_easy_setopt(transfer, CURLOPT_PREREQFUNCTION, before_request);
    if (code == CURLE_OK) code = curl_easy_setopt(transfer, CURLOPT_PREREQDATA, context);
    return code;
}

/* Sets the callback that closes sockets. curl calls `close_socket` when the connection ends, possibly long after the
   transfer. */
static inline CURLcode bellwire_curl_set_closer(CURL *transfer, curl_closesocket_callback close_socket, void *context) {
    CURLcode code = curl_easy_setopt(transfer, CURLOPT_CLOSESOCKETFUNCTION, close_socket);
    if (code == CURLE_OK) code = curl_easy_setopt(transfer, CURLOPT_CLOSESOCKETDATA, context);
    return code;
}

/* Sets the callbacks that receive the response. */
static inline CURLcode bellwire_curl_set_receivers(
    CURL *transfer, curl_write_callback header, curl_write_callback body, void *context) {
    CURLcode code = curl_easy_setopt(transfer, CURLOPT_HEADERFUNCTION, header);
    if (code == CURLE_OK) code = curl_easy_setopt(transfer, CURLOPT_HEADERDATA, context);
    if (code == CURLE_OK) code = curl_easy_setopt(transfer, CURLOPT_WRITEFUNCTION, body);
    if (code == CURLE_OK) code = curl_easy_setopt(transfer, CURLOPT_WRITEDATA, context);
    return code;
}

/* Returns 0 when curl does not know the number. */
static inline long bellwire_curl_number(CURL *transfer, CURLINFO info) {
    long value = 0;
    return curl_easy_getinfo(transfer, info, &value) == CURLE_OK ? value : 0;
}

/* Returns 0 when curl does not know the number. */
static inline curl_off_t bellwire_curl_size(CURL *transfer, CURLINFO info) {
    curl_off_t value = 0;
    return curl_easy_getinfo(transfer, info, &value) == CURLE_OK ? value : 0;
}

static inline CURLMcode bellwire_curl_set_multi_number(CURLM *transfers, CURLMoption option, long value) {
    return curl_multi_setopt(transfers, option, value);
}
