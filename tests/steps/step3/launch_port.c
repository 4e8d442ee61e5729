// What programs do with ports. "listen": as rank 0 does at MASTER_PORT, on the address and on all;
// "hold tcp" and "hold udp": takes one, prints it and keeps it until stdin ends.
#include <arpa/inet.h>
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int bound(const char *address, int port, int type, int reuse) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, address, &to.sin_addr);
    int s = socket(AF_INET, type, 0);
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
    if (bind(s, (struct sockaddr *)&to, sizeof to) == 0)
        return s;
    close(s);
    return -1;
}

static int port_of(int s) {
    struct sockaddr_in name;
    socklen_t bytes = sizeof name;
    if (getsockname(s, (struct sockaddr *)&name, &bytes))
        err(1, "getsockname");
    return ntohs(name.sin_port);
}

static void listen_at(const char *address, int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, address, &to.sin_addr);
    int s = bound(address, port, SOCK_STREAM, 1), c = socket(AF_INET, SOCK_STREAM, 0);
    if (s < 0 || listen(s, 5) || connect(c, (struct sockaddr *)&to, sizeof to) ||
        accept(s, NULL, NULL) < 0)
        err(1, "cannot listen at port %d of %s", port, address);
    close(s);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "", *text = getenv("MASTER_PORT");
    int port = text ? atoi(text) : 0, s;
    if (!strcmp(what, "listen")) {
        listen_at("127.0.0.1", port);
        listen_at("0.0.0.0", port);
    } else if (!strcmp(what, "hold") && argc > 2) {
        int tcp = !strcmp(argv[2], "tcp");
        s = bound("127.0.0.1", 0, tcp ? SOCK_STREAM : SOCK_DGRAM, 0);
        if (tcp)
            listen(s, 1);
        printf("%d\n", port_of(s));
        fflush(stdout);
        while (read(0, &port, 1) > 0)
            ;
    } else
        errx(2, "launch_port listen|hold");
}
