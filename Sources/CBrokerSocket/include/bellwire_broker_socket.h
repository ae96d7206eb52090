#pragma once
#include <stdbool.h>
#include <stdint.h>

/// The socket of a client of mosquitto 2.0, which tells a plugin its clients' addresses but not their sockets; -1 when it cannot be
/// found. `client` is a `struct mosquitto *`, `address` what `mosquitto_client_address` says of it.
///
/// It is the second member of the structure in all of 2.0 on Linux. Whether it is so here is seen from the peer of that socket:
/// only one that has the client's address is returned.
int bellwire_client_socket(const void *client, const char *address);

/// How many bytes were written to a TCP socket since it was opened, and whether all of them have arrived. False when the kernel
/// does not say.
bool bellwire_socket_progress(int socket, uint64_t *written, bool *is_drained);

/// Makes the kernel forget what it still has for the peer as soon as the socket is closed, instead of keeping it until the peer
/// reads or is given up.
void bellwire_socket_forget(int socket);
