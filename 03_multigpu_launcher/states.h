// The state machine of the launcher: how an event changes the state of the ranks, and what the
// launcher does then. states.c has the table, and docs/launchers.md a picture of it.
#pragma once

// A state of the ranks on one node. They are IDLE before the first attempt, and GONE when their
// launcher has ended.
enum state { IDLE, RUNNING, STOPPING, FAILED, DONE, GONE };

// What node 0 orders all nodes to do. START: start attempt order_attempt, unless it has started.
enum order { STOP, START, END };

// What can happen on one node.
enum event {
    START_ORDERED, // node 0 orders a new attempt, and no rank of this node runs
    STOP_ORDERED,  // node 0 ends this attempt, or is lost
    RANK_FAILED,   // a rank has not ended with exit code 0
    RANKS_ENDED,   // all ranks have ended, and their output has been written
    TIME_OVER,     // a signal has ended the run, and then --shutdown-timeout has passed
    LAUNCHER_ENDS
};

// Changes me->state as the table says for this event, and calls the function of this change.
void handle(enum event event);

// SIGTERM, SIGINT or SIGHUP ends the run, without another attempt.
void end_run(int signal);

// On node 0: orders what follows from the states of all nodes. On all nodes, also on node 0:
// follows the order. Call it after each event.
void follow_order(void);

// Returns -1 until the run has ended for this launcher, and then its exit code.
int exit_code(void);

// Returns 1 if a signal has ended the run on this node.
int ended_by_signal(void);
