#include "bellwire_broker_socket.h"
#include <arpa/inet.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static bool has_peer(int socket, const char *address) {
    struct sockaddr_storage peer;
    socklen_t size = sizeof(peer);
    if (getpeername(socket, (struct sockaddr *)&peer, &size) != 0) return false;
    const void *host;
    if (peer.ss_family == AF_INET) {
        host = &((struct sockaddr_in *)&peer)->sin_addr;
    } else if (peer.ss_family == AF_INET6) {
        host = &((struct sockaddr_in6 *)&peer)->sin6_addr;
    } else {
        return false;
    }
    char text[INET6_ADDRSTRLEN];
    return inet_ntop(peer.ss_family, host, text, sizeof(text)) && strcmp(text, address) == 0;
}

int bellwire_client_socket(const void *client, const char *address) {
    if (!client || !address) return -1;
    /* struct mosquitto { int ident; mosq_sock_t sock; … } */
    struct { int ident, sock; } head;
    memcpy(&head, client, sizeof(head));
    return head.sock >= 0 && has_peer(head.sock, address) ? head.sock : -1;
}

bool bellwire_socket_progress(int socket, uint64_t *written, bool *is_drained) {
    struct tcp_info info;
    socklen_t size = sizeof(info);
    memset(&info, 0, sizeof(info));
    if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
    int waiting = 0;
    if (ioctl(socket, SIOCOUTQ, &waiting) != 0 || waiting < 0) return false;
    *written = info.tcpi_bytes_acked + (uint64_t)waiting;
    *is_drained = waiting == 0;
    return true;
}

void bellwire_socket_forget(int socket) {
    struct linger none = {.l_onoff = 1, .l_linger = 0};
    setsockopt(socket, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
}
