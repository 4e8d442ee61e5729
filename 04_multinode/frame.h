// Frames: the messages of fixed size that ranks exchange when they meet (meet_by_tcp.h).
#pragma once
#include "03_multigpu_launcher/environment.h"
#include "common/base/error.h"
#include <netdb.h>
#include <stddef.h>
#include <stdint.h>

// A rank sends HELLO. When all ranks have come, rank 0 sends ID. The rank answers with SEEN, or
// with NO if it does not see the folder of the snapshot. Rank 0 ends the rendezvous with GO, or
// with NO.
enum kind { HELLO = 1, ID, SEEN, GO, NO };

// Numbers are in network byte order, and texts end with a 0.
struct frame {
    char magic[8];
    uint32_t version, kind, world, rank; // of the sender
    char run[256], token[64], host[64];
    char body[WHY_SIZE]; // HELLO: the kind of its device; ID: NCCL's id; NO: the reason
};

extern struct frame my_frame;                 // this rank's HELLO
extern char master_host[256], master_port[8]; // address of rank 0; empty before prepare_frame

// Sets the three variables above from the environment. token_file holds the secret that all ranks
// share (NULL: MASTER_TOKEN, if it is set). If all ranks are on one host, MASTER_ADDR and
// MASTER_PORT may be missing. A mistake ends the program.
void prepare_frame(const struct place *p, const char *token_file);

// Returns the addresses of rank 0, or NULL with the reason in *why: a name server may learn its
// name later. The caller frees them with freeaddrinfo.
struct addrinfo *find_rank0(const char **why);

// Sends my_frame with this kind and body (NULL: its own body). seconds() must not exceed end.
// Returns 1, or 0 with the reason in errno.
int send_frame(int socket, enum kind kind, const void *body, size_t bytes, double end);

// Receives the next part of a frame, without waiting. *got: the bytes that f holds. Returns 1 if
// the frame is complete, 0 if not, and -1 if the other end has closed the connection.
int receive_more(int socket, struct frame *f, size_t *got);

// Returns 1 if the frame comes from this version of the program.
int is_frame(const struct frame *f);
