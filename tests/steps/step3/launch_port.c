// What programs do with ports. "listen": as rank 0 does at MASTER_PORT, on the address and on all;
// "grab": takes all ports that the system gives away, and prints them; "hold tcp" and "hold udp":
// takes one, prints it and keeps it until stdin ends; "send": throws datagrams at MASTER_PORT;
// "up": starts a network of one's own.
#include <arpa/inet.h>
#include <err.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
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
    } else if (!strcmp(what, "grab")) {
        for (int reuse = 0; reuse < 2; reuse++)
            for (int all = 0; all < 2; all++)
                while ((s = bound(all ? "0.0.0.0" : "127.0.0.1", 0, SOCK_STREAM, reuse)) >= 0)
                    printf("%d\n", port_of(s));
    } else if (!strcmp(what, "hold") && argc > 2) {
        int tcp = !strcmp(argv[2], "tcp");
        s = bound("127.0.0.1", 0, tcp ? SOCK_STREAM : SOCK_DGRAM, 0);
        if (tcp)
            listen(s, 1);
        printf("%d\n", port_of(s));
        fflush(stdout);
        while (read(0, &port, 1) > 0)
            ;
    } else if (!strcmp(what, "send")) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
        inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
        s = socket(AF_INET, SOCK_DGRAM, 0);
        char bytes[2000];
        unsigned magic = 0x4c4e4348; // of nodes.h
        srandom(1);
        for (int i = 0; i < 3000; i++) {
            for (size_t k = 0; k < sizeof bytes; k++)
                bytes[k] = i % 3 ? random() : 0;
            if (i % 2)
                memcpy(bytes, &magic, sizeof magic);
            sendto(s, bytes, i % 4 < 2 ? 112 : i % 2000, 0, (struct sockaddr *)&to, sizeof to);
        }
    } else if (!strcmp(what, "up")) {
        struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
        if (ioctl(socket(AF_INET, SOCK_DGRAM, 0), SIOCSIFFLAGS, &lo))
            err(1, "lo");
    } else
        errx(2, "launch_port listen|grab|hold|send|up");
}
