#pragma once
#include <stdbool.h>
#include <stdint.h>

/// Returns the socket of a client of mosquitto 2.0; -1 when the socket cannot be found. mosquitto gives a plugin the
/// addresses of clients, but not their sockets. `client` is a `struct mosquitto *`, and `address` the result of
/// `mosquitto_client_address` for this client.
///
/// The socket is the second member of the structure in all versions 2.0 on Linux. To verify this, the function returns
/// only a socket whose peer has the client's address.
int bellwire_client_socket(const void *client, const char *address);

/// Reads how many bytes were written to a TCP socket since its opening, and whether all these bytes have arrived.
/// Returns false when the kernel cannot report these numbers.
bool bellwire_socket_progress(int socket, uint64_t *written, bool *is_drained);

/// Makes the kernel drop unsent bytes as soon as the socket is closed. Otherwise the kernel keeps these bytes until the
/// peer reads, or until the kernel gives up the peer.
void bellwire_socket_forget(int socket);
