#pragma once
#include <linux/sockios.h>
#include <microhttpd.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

/* The first message that microhttpd has logged; empty before that message. After a failed start the message names the
   reason. */
struct bellwire_http_problem {
    char text[256];
};

/* Keeps only the first message. Later messages concern single connections, and no code reads such messages. */
static inline void bellwire_http_note(void *problem, const char *format, va_list arguments) {
    struct bellwire_http_problem *note = (struct bellwire_http_problem *)problem;
    if (note->text[0] == 0) vsnprintf(note->text, sizeof note->text, format, arguments);
}

/* The callbacks of the server. Each callback is called with `context`, always on the server's thread. */
struct bellwire_http_callbacks {
    void *context;
    MHD_AcceptPolicyCallback accept;
    MHD_NotifyConnectionCallback connection;
    void *(*request)(void *context, const char *target, struct MHD_Connection *connection);
    MHD_AccessHandlerCallback serve;
    MHD_RequestCompletedCallback completed;
};

/* Starts the server; Swift cannot call MHD_start_daemon because of its variable argument list. The caller binds the
   socket, so that an address in use is reported with its name. `certificates` and `key` are PEM for TLS, or both NULL;
   the caller may free these two afterwards, but must keep `problem` as long as the server runs. */
static inline struct MHD_Daemon *bellwire_http_start(
    int listen_socket, unsigned int most_connections, size_t memory_per_connection, const char *certificates,
    const char *key, const struct bellwire_http_callbacks *callbacks, struct bellwire_http_problem *problem) {
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)certificates},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)key},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)"NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"},
        {MHD_OPTION_END, 0, NULL},
    };
    unsigned int flags =
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    return MHD_start_daemon(
        certificates == NULL ? flags : flags | MHD_USE_TLS, 0, callbacks->accept, callbacks->context,
        callbacks->serve, callbacks->context,
        /* The logger is the first option, because the logger also reports mistakes in the other options. */
        MHD_OPTION_EXTERNAL_LOGGER, bellwire_http_note, (void *)problem,
        MHD_OPTION_LISTEN_SOCKET, (MHD_socket)listen_socket,
        MHD_OPTION_CONNECTION_LIMIT, most_connections,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, memory_per_connection,
        MHD_OPTION_NOTIFY_CONNECTION, callbacks->connection, callbacks->context,
        MHD_OPTION_URI_LOG_CALLBACK, callbacks->request, callbacks->context,
        MHD_OPTION_NOTIFY_COMPLETED, callbacks->completed, callbacks->context,
        MHD_OPTION_ARRAY, certificates == NULL ? &tls[3] : tls,
        MHD_OPTION_END);
}

static inline const char *bellwire_http_problem_text(const struct bellwire_http_problem *problem) { return problem->text; }

/* Swift does not see microhttpd's enumerations by name, so the following functions use the enumerations. */

/* Makes a response with a copy of `bytes`. */
static inline struct MHD_Response *bellwire_http_response(const void *bytes, size_t count) {
    return MHD_create_response_from_buffer(count, (void *)bytes, MHD_RESPMEM_MUST_COPY);
}

/* Makes a response whose body `next` returns piece by piece, without a known end. `drop` gets `context` after the last
   call of `next`. */
static inline struct MHD_Response *bellwire_http_stream(
    MHD_ContentReaderCallback next, void *context, MHD_ContentReaderFreeCallback drop) {
    return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 4096, next, context, drop);
}

/* Cuts the query off the target, for the callback that gets the target before microhttpd parses the query. microhttpd
   0.9.75 would store each parameter of the query, and would never respond when there is no room for a parameter. The
   target may be changed, because the target lies in the connection's own memory. */
static inline void bellwire_http_drop_query(const char *target) {
    char *query = strchr((char *)target, '?');
    if (query != NULL) query[1] = 0;
}

static inline void bellwire_http_each_header(
    struct MHD_Connection *connection, MHD_KeyValueIteratorN each, void *context) {
    MHD_get_connection_values_n(connection, MHD_HEADER_KIND, each, context);
}

/* Returns the socket of a connection; -1 without a socket. */
static inline int bellwire_http_socket(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info == NULL ? -1 : info->connect_fd;
}

/* Returns the bytes that the kernel was given and the other host has not acknowledged; -1 when unknown. */
static inline int bellwire_http_unacknowledged(struct MHD_Connection *connection) {
    int waiting = 0;
    return ioctl(bellwire_http_socket(connection), SIOCOUTQ, &waiting) == 0 ? waiting : -1;
}

/* Returns the status of the response; 0 without a response. */
static inline unsigned int bellwire_http_status(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_HTTP_STATUS);
    return info == NULL ? 0 : info->http_status;
}

static inline bool bellwire_http_has_started(enum MHD_ConnectionNotificationCode code) {
    return code == MHD_CONNECTION_NOTIFY_STARTED;
}

static inline bool bellwire_http_is_complete(enum MHD_RequestTerminationCode code) {
    return code == MHD_REQUEST_TERMINATED_COMPLETED_OK;
}

static inline enum MHD_Result bellwire_http_result(bool isFine) { return isFine ? MHD_YES : MHD_NO; }

static inline bool bellwire_http_is_fine(enum MHD_Result result) { return result == MHD_YES; }
