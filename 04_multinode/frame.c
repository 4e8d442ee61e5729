#include "04_multinode/frame.h"
#include "common/base/clock.h"
#include "common/base/options.h"
#include "common/device/device.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VERSION = 1 };

struct frame my_frame;
char master_host[256], master_port[8];

// Keeps the end of a long text, because the ends of two names differ more often.
static void set_text(char *field, size_t size, const char *text) {
    size_t length = strlen(text);
    snprintf(field, size, "%s", text + (length < size ? 0 : length - size + 1));
}

// The token comes from a file or the environment, because everybody on the host can read a command
// line.
static void read_token(const char *path) {
    struct stat s;
    const char *name = path ? path : "MASTER_TOKEN", *given = getenv("MASTER_TOKEN");
    char token[sizeof my_frame.token + 2] = "";
    if (!path && !given)
        return;
    if (path) {
        int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe would block
        if (file < 0 || fstat(file, &s) || read(file, token, sizeof token - 1) < 0)
            fail("--token-file %s: %m", path);
        if (!S_ISREG(s.st_mode) || s.st_uid != geteuid() || (s.st_mode & 077))
            fail("--token-file %s must be a plain file that only this user can read: chmod 600",
                 path);
        close(file);
    } else {
        snprintf(token, sizeof token, "%s", given);
    }
    token[strcspn(token, "\n")] = 0;
    if (!*token || strlen(token) >= sizeof my_frame.token)
        fail("%s: a token has 1 to %zu characters in one line", name, sizeof my_frame.token - 1);
    memcpy(my_frame.token, token, strlen(token));
}

// Ranks on one host can choose a port themselves. They derive it from the name of the run, or from
// the number of their parent process if the run has no name.
static void meet_here(const struct place *p) {
    char port[8];
    unsigned sum = *p->run ? 0 : getppid();
    for (const char *c = p->run; *c; c++)
        sum = 31 * sum + *c;
    snprintf(port, sizeof port, "%u", 20000 + sum % 10000);
    setenv("MASTER_ADDR", "127.0.0.1", 0);
    setenv("MASTER_PORT", port, 0);
}

void prepare_frame(const struct place *p, const char *token_file) {
    if (p->local_world == p->world)
        meet_here(p);
    const char *host = getenv("MASTER_ADDR");
    if (!host || !*host || !getenv("MASTER_PORT"))
        wrong_usage("%s is not set, so no rank knows where rank 0 listens: in a job script, set "
                    "MASTER_PORT=29500 and MASTER_ADDR="
                    "$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1) or "
                    "$(head -n 1 \"$PBS_NODEFILE\")",
                    host && *host ? "MASTER_PORT" : "MASTER_ADDR");
    snprintf(master_host, sizeof master_host, "%s", host);
    snprintf(master_port, sizeof master_port, "%d", rank0_port());
    memcpy(my_frame.magic, "ranks\r\n", sizeof my_frame.magic);
    my_frame.version = htonl(VERSION);
    my_frame.kind = htonl(HELLO);
    my_frame.world = htonl(p->world);
    my_frame.rank = htonl(p->rank);
    set_text(my_frame.run, sizeof my_frame.run, p->run);
    gethostname(my_frame.host, sizeof my_frame.host - 1);
    set_text(my_frame.body, sizeof my_frame.body, device_kind());
    read_token(token_file);
}

struct addrinfo *find_rank0(const char **why) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    int error = getaddrinfo(master_host, master_port, &hints, &list);
    *why = error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error);
    return error ? NULL : list;
}

int send_frame(int socket, enum kind kind, const void *body, size_t bytes, double end) {
    struct frame f = my_frame;
    f.kind = htonl(kind);
    if (kind != HELLO) { // rank 0 may answer a program that knows neither of them
        memset(f.run, 0, sizeof f.run);
        memset(f.token, 0, sizeof f.token);
    }
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

int receive_more(int socket, struct frame *f, size_t *got) {
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

int is_frame(const struct frame *f) {
    return !memcmp(f->magic, my_frame.magic, sizeof f->magic) && f->version == my_frame.version;
}
