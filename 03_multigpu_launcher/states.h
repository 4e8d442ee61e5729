// The state machine of the launcher: what happens, in which state the ranks are then, and what the
// launcher does. states.c has the tables, and docs/launchers.md a picture of them.
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
    RANKS_ENDED,   // all of them, and their output has been written
    TIME_OVER,     // --shutdown-timeout after a signal that ends the run
    LAUNCHER_ENDS
};

// Sets me->state by the event, and does what belongs to this change.
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
