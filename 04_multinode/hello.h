// The messages of the rendezvous over TCP. A rank sends HELLO. When all ranks have come, rank 0
// sends ID to each one, or NO. The messages are not encrypted.
#pragma once
#include "03_multigpu_launcher/environment.h"
#include "common/base/error.h"
#include <limits.h>
#include <stddef.h>
#include <stdint.h>

enum kind { HELLO = 1, ID, NO };

// Texts end with a 0. All hosts have the same byte order, or the versions differ.
struct frame {
    char magic[8];
    uint32_t version, kind, world, rank; // of the sender
    char host[HOST_NAME_MAX + 1];
    char run[256], token[64]; // only in HELLO, because the receiver may know neither of them
    char body[512];           // HELLO: the kind of its device; ID: NCCL's id; NO: the reason
};
_Static_assert(sizeof(struct frame) <= 1220, "a HELLO arrives in one packet in any network");
extern struct frame my_frame; // this rank's HELLO

// Sets my_frame. The token comes from the file or, if it is NULL, from MASTER_TOKEN, because
// everybody on the host can read a command line. A token file that others can read ends the
// program.
void prepare_hello(const struct place *p, const char *token_file);

// Returns 0 if the HELLO is that of a rank of this run, or -1 with the reason to refuse it.
int check_hello(const struct frame *f, char why[WHY_SIZE]);

// Sends ID or NO, and cuts a body that is too long. A new connection has room for a frame, so this
// does not wait.
void answer(int socket, enum kind kind, const void *body, size_t bytes);

// Receives the next part of a frame, and waits as long as the socket may. Returns 1 if the frame is
// complete, 0 if not, and -1 if the other end has closed the connection. got: bytes in the frame, 0
// at first.
int receive_more(int socket, struct frame *f, size_t *got);
