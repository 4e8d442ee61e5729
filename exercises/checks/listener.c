// listener full|close ADDRESS PORT: listens there, prints a line, and waits for a signal.
// full:  takes no more connections, so a new one gets no answer, as if a firewall dropped all
//        packets
// close: closes each connection at once
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    struct sockaddr_in at = {.sin_family = AF_INET};
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (argc != 4 || !inet_aton(argv[2], &at.sin_addr))
        return 2;
    int full = !strcmp(argv[1], "full");
    at.sin_port = htons(atoi(argv[3]));
    if (bind(s, (struct sockaddr *)&at, sizeof at) || listen(s, full ? 0 : 10))
        return 1;
    for (int i = 0; i < 3 && full; i++) // the queue of connections that nobody accepts
        connect(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), (struct sockaddr *)&at, sizeof at);
    puts("listening");
    fflush(stdout);
    while (full)
        pause();
    for (;;)
        close(accept(s, NULL, NULL));
}
