// stranger RECORD CLIENT...: opens connections to rank 0 that do not belong to its ranks, all at
// once, and keeps them until rank 0 has closed them. It prints a line for each answer of rank 0,
// and writes all bytes of the answers to the file RECORD. The environment holds the address of rank
// 0, and the rank in the hello. A client is one of:
//
//   silent, close, random, half, loris, late (a rank 0), or what to change in the hello of that
//   rank, such as version=2  world=9  rank=0  run=-y  token=x
//
// 20xsilent stands for so many.
#include "04_multinode/meet_by_tcp.c" // for prepare

static struct client {
    const char *does;
    int socket;
    struct frame hello, answer;
    size_t sent, got;
} * clients;
static int count;

static void change(struct frame *f, const char *field, const char *value) {
    uint32_t number = strtoul(value, NULL, 10);
    if (!strncmp(field, "version", 7))
        f->version = number;
    else if (!strncmp(field, "world", 5))
        f->world = number;
    else if (!strncmp(field, "rank", 4))
        f->rank = number;
    else if (!strncmp(field, "run", 3))
        snprintf(f->run, sizeof f->run, "%s", value);
    else if (!strncmp(field, "token", 5))
        snprintf(f->token, sizeof f->token, "%s", value);
    else
        fail("no field %s", field);
}

static void reach(struct client *c, const char *does) {
    const char *why;
    int second = 1;
    struct addrinfo *list = find_addresses(rendezvous.host, rendezvous.port, &why);
    *c = (struct client){.does = does, .hello = my_frame};
    c->socket = socket(list->ai_family, SOCK_STREAM, 0);
    if (connect(c->socket, list->ai_addr, list->ai_addrlen))
        fail("cannot connect: %m");
    freeaddrinfo(list);
    // A silent connection that rank 0 has not accepted ends without a packet, so ask for it,
    // more than once, because rank 0 may end a moment after the first question.
    setsockopt(c->socket, SOL_SOCKET, SO_KEEPALIVE, &second, sizeof second);
    setsockopt(c->socket, IPPROTO_TCP, TCP_KEEPIDLE, &second, sizeof second);
    setsockopt(c->socket, IPPROTO_TCP, TCP_KEEPINTVL, &second, sizeof second);
    if (!strcmp(does, "close")) {
        close(c->socket);
        c->socket = -1;
    } else if (!strcmp(does, "random")) {
        for (size_t i = 0; i < sizeof c->hello; i++)
            ((char *)&c->hello)[i] = rand();
        send(c->socket, &c->hello, sizeof c->hello, MSG_NOSIGNAL);
    } else if (!strcmp(does, "half")) {
        send(c->socket, &c->hello, sizeof c->hello / 2, MSG_NOSIGNAL);
    } else if (strchr(does, '=')) {
        change(&c->hello, does, strchr(does, '=') + 1);
        send(c->socket, &c->hello, sizeof c->hello, MSG_NOSIGNAL);
    }
}

// What has come since, into the record. Returns whether more may come.
static int listen_on(struct client *c, FILE *record) {
    char bytes[4096];
    ssize_t n = recv(c->socket, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return 1;
    for (ssize_t i = 0; i < n && c->got < sizeof c->answer; i++)
        ((char *)&c->answer)[c->got++] = bytes[i];
    if (n > 0 && fwrite(bytes, 1, n, record) == (size_t)n)
        return 1;
    close(c->socket);
    c->socket = -1;
    return 0;
}

int main(int argc, char **argv) {
    struct place place = find_place();
    FILE *record = argc > 1 ? fopen(argv[1], "w") : NULL;
    if (!record)
        fail("stranger RECORD CLIENT...");
    clients = calloc(10000, sizeof *clients);
    prepare(&place, NULL, 0);
    for (int i = 2; i < argc; i++) {
        char *does;
        long times = strtol(argv[i], &does, 10);
        for (long n = does == argv[i] ? 1 : times; n > 0; n--)
            reach(&clients[count++], does + (does != argv[i]));
    }
    printf("connected\n");
    fflush(stdout);
    for (int left = 1; left;) {
        left = 0;
        usleep(50000);
        for (int i = 0; i < count; i++) {
            struct client *c = &clients[i];
            if (c->socket >= 0 && !strcmp(c->does, "loris") && c->sent < sizeof c->hello)
                c->sent += send(c->socket, (char *)&c->hello + c->sent, 1, MSG_NOSIGNAL) > 0;
            if (c->socket >= 0 && !strcmp(c->does, "late") && !c->sent) {
                c->hello.rank = 0;
                c->sent = send(c->socket, &c->hello, sizeof c->hello, MSG_NOSIGNAL);
            }
            left += c->socket >= 0 && listen_on(c, record);
        }
    }
    for (int i = 0; i < count; i++)
        printf("%s: %s\n", clients[i].does,
               clients[i].got == sizeof clients[i].answer ? clients[i].answer.body : "no answer");
    return fclose(record) != 0;
}
