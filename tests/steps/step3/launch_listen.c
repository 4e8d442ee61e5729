// Listens at MASTER_PORT as rank 0 does, on the address and on all.
#include <arpa/inet.h>
#include <err.h>
#include <stdlib.h>
#include <unistd.h>

static void listen_at(const char *address, int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, address, &to.sin_addr);
    int on = 1, s = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(s, (struct sockaddr *)&to, sizeof to) || listen(s, 5) ||
        connect(c, (struct sockaddr *)&to, sizeof to) || accept(s, NULL, NULL) < 0)
        err(1, "cannot listen at port %d of %s", port, address);
    close(s);
}

int main(void) {
    int port = atoi(getenv("MASTER_PORT"));
    listen_at("127.0.0.1", port);
    listen_at("0.0.0.0", port);
}
