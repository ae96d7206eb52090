#pragma once
#include <linux/sockios.h>
#include <microhttpd.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

/* What microhttpd says first about why it cannot start. Empty before. */
struct bellwire_http_problem {
    char text[256];
};

/* What it says later is about single connections, and nobody reads it. */
static inline void bellwire_http_note(void *problem, const char *format, va_list arguments) {
    struct bellwire_http_problem *note = (struct bellwire_http_problem *)problem;
    if (note->text[0] == 0) vsnprintf(note->text, sizeof note->text, format, arguments);
}

/* Who is called, each with `context`, and always on the thread of the server. */
struct bellwire_http_callbacks {
    void *context;
    MHD_AcceptPolicyCallback accept;
    MHD_NotifyConnectionCallback connection;
    void *(*request)(void *context, const char *target, struct MHD_Connection *connection);
    MHD_AccessHandlerCallback serve;
    MHD_RequestCompletedCallback completed;
};

/* MHD_start_daemon takes a variable argument list, which Swift cannot call. The socket is bound by the caller, so
   that an address in use is reported with its name. `certificates` and `key` are PEM, for TLS, or both NULL; they are not
   needed afterwards, but `problem` is as long as the server runs. */
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
        /* First, since it is about the other options too. */
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

/* Swift does not see the enumerations of this library by name: hence what follows. */

/* With a copy of `bytes`. */
static inline struct MHD_Response *bellwire_http_response(const void *bytes, size_t count) {
    return MHD_create_response_from_buffer(count, (void *)bytes, MHD_RESPMEM_MUST_COPY);
}

/* With a body that `next` gives piece by piece, and that has no end yet. `drop` is given `context` when nobody asks any more. */
static inline struct MHD_Response *bellwire_http_stream(
    MHD_ContentReaderCallback next, void *context, MHD_ContentReaderFreeCallback drop) {
    return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 4096, next, context, drop);
}

/* For the callback that is given the target: takes the query from microhttpd, which reads it next. 0.9.75 makes a note of each
   parameter, and when there is no room for one it never answers. The target lies in the connection's own memory. */
static inline void bellwire_http_drop_query(const char *target) {
    char *query = strchr((char *)target, '?');
    if (query != NULL) query[1] = 0;
}

static inline void bellwire_http_each_header(
    struct MHD_Connection *connection, MHD_KeyValueIteratorN each, void *context) {
    MHD_get_connection_values_n(connection, MHD_HEADER_KIND, each, context);
}

/* -1 when there is none. */
static inline int bellwire_http_socket(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info == NULL ? -1 : info->connect_fd;
}

/* Bytes that the kernel was given and the other host has not acknowledged; -1 when that is not known. */
static inline int bellwire_http_unacknowledged(struct MHD_Connection *connection) {
    int waiting = 0;
    return ioctl(bellwire_http_socket(connection), SIOCOUTQ, &waiting) == 0 ? waiting : -1;
}

/* Of the response that was given, 0 when there is none. */
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
