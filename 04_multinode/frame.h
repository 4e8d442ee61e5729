// What ranks say to each other when they meet (meeting.h), in frames that all have the same size.
#pragma once
#include "../03_multigpu_launcher/environment.h"
#include "../common/error.h"
#include "../common/report.h"
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum kind { HELLO = 1, ID, SEEN, GO, NO };
enum { VERSION = 1 };

struct frame { // numbers in network byte order; texts end with a 0
    char magic[8];
    uint32_t version, kind, world, rank; // of who says it
    char run[256], token[64], host[64];
    char body[WHY_SIZE]; // HELLO: what is to be trained; ID: the id; NO: why
};

static struct frame self;                     // what this rank says
static char master_host[256], master_port[8]; // of rank 0

static void set_text(char *field, size_t size,
                     const char *text) { // the end of a long one tells more
    size_t length = strlen(text);
    snprintf(field, size, "%s", text + (length < size ? 0 : length - size + 1));
}

// From a file or the environment, as a command line can be read by everybody on the host.
static void read_token(const char *path) {
    struct stat s;
    const char *name = path ? path : "MASTER_TOKEN", *given = getenv("MASTER_TOKEN");
    char token[sizeof self.token + 2] = "";
    if (!path && !given)
        return;
    if (path) {
        int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe would wait
        if (file < 0 || fstat(file, &s) || read(file, token, sizeof token - 1) < 0)
            fail("--token-file %s: %m", path);
        if (!S_ISREG(s.st_mode) || s.st_uid != geteuid() || (s.st_mode & 077))
            fail("--token-file %s must be a file of this user's that nobody else can read: chmod "
                 "600",
                 path);
        close(file);
    } else {
        snprintf(token, sizeof token, "%s", given);
    }
    token[strcspn(token, "\n")] = 0;
    if (!*token || strlen(token) >= sizeof self.token)
        fail("%s: a token has 1 to %zu characters in one line", name, sizeof self.token - 1);
    memcpy(self.token, token, strlen(token));
}

// Ranks that are all on one host need not be told where to meet. They make a port of their own out
// of what they have in common: the name of the run, or else the parent.
static void meet_here(const struct place *p) {
    char port[8];
    unsigned sum = *p->run ? 0 : getppid();
    for (const char *c = p->run; *c; c++)
        sum = 31 * sum + *c;
    snprintf(port, sizeof port, "%u", 20000 + sum % 10000);
    setenv("MASTER_ADDR", "127.0.0.1", 0);
    setenv("MASTER_PORT", port, 0);
}

static void prepare(const struct place *p, const char *plan, const char *token_file) {
    if (p->local_world == p->world)
        meet_here(p);
    const char *host = getenv("MASTER_ADDR"), *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
    if (!host || !*host || !getenv("MASTER_PORT"))
        wrong_usage("%s is not set: where rank 0 listens; in a job script MASTER_PORT=29500 and "
                    "MASTER_ADDR="
                    "$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1) or "
                    "$(head -n 1 \"$PBS_NODEFILE\")",
                    host && *host ? "MASTER_PORT" : "MASTER_ADDR");
    // At MASTER_PORT torchrun listens itself, with a store for PyTorch, so rank 0 gets the port
    // after it.
    int port = from_environment("MASTER_PORT", 1, 65534) + (agent && !strcmp(agent, "True"));
    snprintf(master_host, sizeof master_host, "%s", host);
    snprintf(master_port, sizeof master_port, "%d", port);
    memcpy(self.magic, "ranks\r\n", sizeof self.magic);
    self.version = htonl(VERSION);
    self.kind = htonl(HELLO);
    self.world = htonl(p->world);
    self.rank = htonl(p->rank);
    set_text(self.run, sizeof self.run, p->run);
    gethostname(self.host, sizeof self.host - 1);
    set_text(self.body, sizeof self.body, plan ? plan : "");
    read_token(token_file);
}

// Addresses of rank 0, or NULL if a name server has no answer now.
static struct addrinfo *find_rank0(void) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    int error = getaddrinfo(master_host, master_port, &hints, &list);
    if (error && error != EAI_AGAIN)
        fail("MASTER_ADDR=%s: %s", master_host,
             error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error));
    return error ? NULL : list;
}

// All of it before the end. Returns 1, or 0 with the reason in errno.
static int send_frame(int socket, enum kind kind, const void *body, size_t bytes, double end) {
    struct frame f = self;
    f.kind = htonl(kind);
    if (kind != HELLO)
        memset(f.token, 0, sizeof f.token); // rank 0 does not tell it to those who do not know it
    if (body)
        memcpy(f.body, body, bytes);
    for (size_t done = 0; done < sizeof f;) {
        ssize_t n = send(socket, (char *)&f + done, sizeof f - done, MSG_NOSIGNAL | MSG_DONTWAIT);
        struct pollfd fd = {.fd = socket, .events = POLLOUT};
        done += n > 0 ? n : 0;
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return 0;
        if (seconds() > end) {
            errno = ETIMEDOUT;
            return 0;
        }
        if (n < 0)
            poll(&fd, 1, 100);
    }
    return 1;
}

// More of a frame. Returns 1 when all of it is there, 0 when not, -1 when no more will come.
static int receive_more(int socket, struct frame *f, size_t *got) {
    ssize_t n = recv(socket, (char *)f + *got, sizeof *f - *got, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return -1;
    *got += n;
    if (*got < sizeof *f)
        return 0;
    f->run[sizeof f->run - 1] = f->token[sizeof f->token - 1] = 0;
    f->host[sizeof f->host - 1] = f->body[sizeof f->body - 1] = 0;
    return 1;
}

static int is_frame(const struct frame *f) {
    return !memcmp(f->magic, self.magic, sizeof f->magic) && f->version == self.version;
}
