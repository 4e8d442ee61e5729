// Included in front of the attendee's sources of step 4. (Other steps have functions whose names
// the header of the sockets uses.)
#pragma once
#include <sys/socket.h>

// Adds a line "connect SECONDS" to the file that OBSERVE_CONNECT names. With OBSERVE_SLOW set, a
// connection takes a moment, as between two hosts: if connect does not wait, it is in progress.
int observe_connect(int socket, const struct sockaddr *address, socklen_t bytes);

#define connect(socket, address, bytes) observe_connect(socket, address, bytes)
