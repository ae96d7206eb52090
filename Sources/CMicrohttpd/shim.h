#pragma once
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
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
   socket, so that the error of an address in use can name the address. `certificate` returns the certificate of each
   TLS handshake; NULL for plain HTTP. The caller must keep `problem` as long as the server runs. */
static inline struct MHD_Daemon *bellwire_http_start(
    int listen_socket, unsigned int most_connections, size_t memory_per_connection,
    gnutls_certificate_retrieve_function2 *certificate, const struct bellwire_http_callbacks *callbacks,
    struct bellwire_http_problem *problem) {
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)certificate},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)"NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"},
        {MHD_OPTION_END, 0, NULL},
    };
    unsigned int flags =
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    return MHD_start_daemon(
        certificate == NULL ? flags : flags | MHD_USE_TLS, 0, callbacks->accept, callbacks->context,
        callbacks->serve, callbacks->context,
        /* The logger is the first option, because the logger also reports mistakes in the other options. */
        MHD_OPTION_EXTERNAL_LOGGER, bellwire_http_note, (void *)problem,
        MHD_OPTION_LISTEN_SOCKET, (MHD_socket)listen_socket,
        MHD_OPTION_CONNECTION_LIMIT, most_connections,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, memory_per_connection,
        MHD_OPTION_NOTIFY_CONNECTION, callbacks->connection, callbacks->context,
        MHD_OPTION_URI_LOG_CALLBACK, callbacks->request, callbacks->context,
        MHD_OPTION_NOTIFY_COMPLETED, callbacks->completed, callbacks->context,
        MHD_OPTION_ARRAY, certificate == NULL ? &tls[2] : tls,
        MHD_OPTION_END);
}

/* The bound on certificates of a chain; further certificates are not sent. */
enum { BELLWIRE_HTTP_CHAIN = 16 };

/* Reads a certificate with its chain, and its private key without a password, both in PEM. On call, `count` is the
   room in `chain`; on return, the number of certificates. Returns 0 or an error of GnuTLS. After an error there is
   nothing to free. A key that does not belong to the certificate is an error. */
static inline int bellwire_http_load(
    const char *certificates, const char *key, gnutls_pcert_st *chain, unsigned int *count, gnutls_privkey_t *made) {
    gnutls_datum_t certificate_text = {(unsigned char *)certificates, (unsigned int)strlen(certificates)};
    gnutls_datum_t key_text = {(unsigned char *)key, (unsigned int)strlen(key)};
    /* Only GnuTLS's credentials check that key and certificate belong together, so credentials are loaded and freed at
       once. */
    gnutls_certificate_credentials_t credentials;
    int code = gnutls_certificate_allocate_credentials(&credentials);
    if (code != 0) return code;
    code = gnutls_certificate_set_x509_key_mem(credentials, &certificate_text, &key_text, GNUTLS_X509_FMT_PEM);
    gnutls_certificate_free_credentials(credentials);
    if (code < 0) return code;
    code = gnutls_privkey_init(made);
    if (code != 0) return code;
    code = gnutls_privkey_import_x509_raw(*made, &key_text, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (code == 0) {
        code = gnutls_pcert_list_import_x509_raw(
            chain, count, &certificate_text, GNUTLS_X509_FMT_PEM, GNUTLS_X509_CRT_LIST_SORT);
    }
    if (code < 0) {
        gnutls_privkey_deinit(*made);
        return code;
    }
    return 0;
}

/* Returns the GnuTLS session of a connection; NULL without TLS. */
static inline void *bellwire_http_session(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    return info == NULL ? NULL : info->tls_session;
}

static inline const char *bellwire_http_problem_text(const struct bellwire_http_problem *problem) { return problem->text; }

/* Swift does not see microhttpd's enumerations by name, so the following functions use the enumerations. */

/* Makes a response with a copy of `bytes`. */
static inline struct MHD_Response *bellwire_http_response(const void *bytes, size_t count) {
    return MHD_create_response_from_buffer(count, (void *)bytes, MHD_RESPMEM_MUST_COPY);
}

/* Makes a response whose body `next` returns piece by piece, of unknown length. `drop` gets `context` after the last
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
