#pragma once
#include <microhttpd.h>

/* MHD_start_daemon takes a variable argument list, which Swift cannot call. The socket is bound by the caller, so
   that an address in use is reported with its name. */
static inline struct MHD_Daemon *bellwire_http_start(int listen_socket, MHD_AccessHandlerCallback handler, void *context) {
    return MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL, 0, NULL, NULL, handler, context,
        MHD_OPTION_LISTEN_SOCKET, (MHD_socket)listen_socket,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned int)64,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)10,
        MHD_OPTION_END);
}

/* Answers with a copy of `bytes`. Swift does not see the enumerations of this library by name. */
static inline enum MHD_Result bellwire_http_answer(
    struct MHD_Connection *connection, unsigned int status, const char *content_type, void *bytes, size_t count) {
    struct MHD_Response *response = MHD_create_response_from_buffer(count, bytes, MHD_RESPMEM_MUST_COPY);
    if (response == NULL) return MHD_NO;
    MHD_add_response_header(response, "Content-Type", content_type);
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}
