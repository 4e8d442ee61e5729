// listener ADDRESS PORT: listens there, prints a line, and waits for a signal. It takes no
// connections, so a new one gets no answer, as if a firewall dropped all packets.
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    struct sockaddr_in at = {.sin_family = AF_INET};
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (argc != 3 || !inet_aton(argv[1], &at.sin_addr))
        return 2;
    at.sin_port = htons(atoi(argv[2]));
    if (bind(s, (struct sockaddr *)&at, sizeof at) || listen(s, 0))
        return 1;
    for (int i = 0; i < 3; i++) // the queue of connections that nobody accepts
        connect(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), (struct sockaddr *)&at, sizeof at);
    puts("listening");
    fflush(stdout);
    for (;;)
        pause();
}
