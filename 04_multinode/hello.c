#include "04_multinode/hello.h"
#include "common/base/minmax.h"
#include "common/device/device.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VERSION = 4 };

struct frame my_frame;

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

void prepare_hello(const struct place *p, const char *token_file) {
    my_frame = (struct frame){.magic = "ranks\r\n",
                              .version = VERSION,
                              .kind = HELLO,
                              .world = p->world,
                              .rank = p->rank};
    strcpy(my_frame.host, host_name());
    strcpy(my_frame.run, p->run);
    strcpy(my_frame.body, device_kind());
    read_token(token_file);
}

// Takes the same time for all tokens, so the time does not tell how many characters are right.
static int same_token(const char *a, const char *b) {
    int difference = 0;
    for (size_t i = 0; i < sizeof my_frame.token; i++)
        difference |= a[i] ^ b[i];
    return !difference;
}

int check_hello(const struct frame *f, char why[WHY_SIZE]) {
    if (memcmp(f->magic, my_frame.magic, sizeof f->magic) || f->version != VERSION ||
        f->kind != HELLO)
        return refuse(why, "not a rank, or one of another version of this program");
    if (!same_token(f->token, my_frame.token))
        return refuse(why, "it has another token (MASTER_TOKEN or --token-file)");
    if (strcmp(f->run, my_frame.run))
        return refuse(why, "it belongs to run %s, and rank 0 to another one", f->run);
    if (f->world != my_frame.world)
        return refuse(why, "it expects %u ranks, but this run has %u", f->world, my_frame.world);
    if (f->rank == 0 || f->rank >= f->world)
        return refuse(why, "it says that it is rank %u of %u", f->rank, f->world);
    if (strcmp(f->body, my_frame.body)) // NCCL connects no GPU with a CPU device
        return refuse(why,
                      "rank %u on %s trains on %s, rank 0 on %s: start all ranks on one kind of "
                      "device",
                      f->rank, f->host, f->body, my_frame.body);
    return 0;
}

void answer(int socket, enum kind kind, const void *body, size_t bytes) {
    struct frame f = my_frame;
    f.kind = kind;
    memset(f.run, 0, sizeof f - offsetof(struct frame, run));
    memcpy(f.body, body, min_size(bytes, sizeof f.body - 1));
    send(socket, &f, sizeof f, MSG_NOSIGNAL | MSG_DONTWAIT);
}

int receive_more(int socket, struct frame *f, size_t *got) {
    ssize_t n = recv(socket, (char *)f + *got, sizeof *f - *got, MSG_WAITALL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return -1;
    *got += n;
    f->run[sizeof f->run - 1] = f->token[sizeof f->token - 1] = 0;
    f->host[sizeof f->host - 1] = f->body[sizeof f->body - 1] = 0;
    return *got == sizeof *f;
}
