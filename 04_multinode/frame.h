// What ranks send each other when they meet (meet_by_tcp.h): frames that all have the same size.
#pragma once
#include "03_multigpu_launcher/environment.h"
#include "common/error.h"
#include <netdb.h>
#include <stddef.h>
#include <stdint.h>

enum kind { HELLO = 1, ID, SEEN, GO, NO };

struct frame { // numbers in network byte order; texts end with a 0
    char magic[8];
    uint32_t version, kind, world, rank; // of the sender
    char run[256], token[64], host[64];
    char body[WHY_SIZE]; // HELLO: plan; ID: NCCL's id; NO: reason
};

extern struct frame my_frame;                 // this rank's HELLO
extern char master_host[256], master_port[8]; // address of rank 0; empty before prepare_frame

// Fills in the three above from the environment, where plan (NULL: none) says what is to be
// trained, and token_file (NULL: MASTER_TOKEN, if it is set) holds a word that all ranks must know.
// Ranks that are all on one host need no MASTER_ADDR and MASTER_PORT. A mistake ends the program.
void prepare_frame(const struct place *p, const char *plan, const char *token_file);

// Returns the addresses of rank 0, for freeaddrinfo, or NULL if a name server has no answer now.
struct addrinfo *find_rank0(void);

// Sends my_frame with another kind and body (NULL: the same), before the time end of seconds().
// Returns 1, or 0 with the reason in errno.
int send_frame(int socket, enum kind kind, const void *body, size_t bytes, double end);

// Receives more of a frame, of which *got bytes are there. Returns 1 when it is complete, 0 when it
// is not yet, and -1 when no more will come. It does not wait.
int receive_more(int socket, struct frame *f, size_t *got);

// Returns 1 if the frame is one of this version.
int is_frame(const struct frame *f);
