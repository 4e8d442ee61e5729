// A getaddrinfo in place of the system's: it writes a byte to the file asked for each question, and
// knows no name until the file known is there. Then each name is this host.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <unistd.h>

int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                struct addrinfo **list) {
    __typeof__(getaddrinfo) *real = (__typeof__(real))dlsym(RTLD_NEXT, "getaddrinfo");
    int file = open("asked", O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (write(file, "?", 1) != 1 || close(file) || access("known", F_OK))
        return EAI_NONAME;
    return host ? real("127.0.0.1", port, hints, list) : real(host, port, hints, list);
}
