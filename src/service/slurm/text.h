/*
 * What Slurm's programs print, taken apart. They are asked for fields between '|', but what stands
 * in a field is the cluster's: names, reasons and states that this doesn't know, lines of other
 * programs in between. A line that isn't as it should be is passed over. Pure functions.
 */
#ifndef PRN_SERVICE_SLURM_TEXT_H
#define PRN_SERVICE_SLURM_TEXT_H

#include "base/buffer.h"

/* Times are in seconds since 1970: SLURM_TIME_FORMAT=%s in the environment. */
#define PRN_SLURM_SQUEUE_FORMAT "%i|%T|%r|%S|%e|%N|%j"
#define PRN_SLURM_SINFO_FORMAT "%P|%l|%f|%G"
#define PRN_SLURM_SACCT_FORMAT "State,ExitCode"

#define PRN_SLURM_STATE_SIZE 24
#define PRN_SLURM_REASON_SIZE 64
#define PRN_SLURM_NODE_SIZE 128
#define PRN_SLURM_NAME_SIZE 128

enum prn_slurm_phase {
    PRN_SLURM_PENDING,
    PRN_SLURM_RUNNING, /* also while the node is made ready */
    PRN_SLURM_ENDING,
    PRN_SLURM_ENDED,
    PRN_SLURM_ODD, /* a state that nobody knows: it is there, and that is all */
};

enum prn_slurm_phase prn_slurm_phase(const char *state);

/* A job, as squeue lists it. Texts are cut where they are too long, and clean. */
struct prn_slurm_row {
    uint64_t job;
    enum prn_slurm_phase phase;
    char state[PRN_SLURM_STATE_SIZE];
    char reason[PRN_SLURM_REASON_SIZE]; /* "": none */
    int64_t start_s, end_s;             /* 0: not known */
    char node[PRN_SLURM_NODE_SIZE];
    char name[PRN_SLURM_NAME_SIZE];
};

/* Steps over what isn't a job; false at the end. `text` is moved. */
bool prn_slurm_next_row(const char **text, struct prn_slurm_row *ret_row);

/* A node in a partition, as sinfo lists it; the texts point into the line, which is changed. */
struct prn_slurm_node {
    const char *partition;
    bool is_default;
    double limit_s; /* INFINITY: none */
    const char *features, *gres;
};

bool prn_slurm_next_node(char **text, struct prn_slurm_node *ret_node);

/* "[days-][hours:]minutes:seconds" or "infinite"; NAN: neither. */
double prn_slurm_time_s(const char *text);

/* Whether a node has the feature, or what a generic resource asks for ("gpu", "gpu:2",
 * "gpu:a100:2", several between commas), however many of it. */
bool prn_slurm_has_feature(const char *features, const char *feature);
bool prn_slurm_has_gres(const char *node_gres, const char *wanted);
/* The next name of a constraint ("intel&(gpu|big*2)"); false at the end. */
bool prn_slurm_next_feature(const char **constraint, char ret_name[PRN_SLURM_NAME_SIZE]);

/* The number of the job that `sbatch --parsable` submitted; 0: it doesn't say. */
uint64_t prn_slurm_submitted(const char *text);

/* How a job ended: what sacct or `scontrol -o show job` says. False: it doesn't say, or that the
 * job hasn't. */
struct prn_slurm_outcome {
    char state[PRN_SLURM_STATE_SIZE];
    int status, signal;
};

bool prn_slurm_parse_sacct(const char *text, struct prn_slurm_outcome *ret_outcome);
bool prn_slurm_parse_scontrol(const char *text, struct prn_slurm_outcome *ret_outcome);

/* Whether the job of `scontrol -o show job` hasn't ended; false: it doesn't say. */
bool prn_slurm_parse_there(const char *text, bool *ret_there);
/* Whether scontrol complains that there is no such job. */
bool prn_slurm_unknown(const char *complaint);

/* Appends the last line that a program complained with, without its own name and without paths; the
 * limit of the accounting that stands above it, if there is one, comes first. */
void prn_slurm_complaint(struct prn_buffer *out, const char *text);

/* What of a pool is refused, as far as such a complaint tells. */
enum prn_slurm_fault {
    PRN_SLURM_FAULT_OTHER,
    PRN_SLURM_FAULT_PARTITION,
    PRN_SLURM_FAULT_CONSTRAINT,
    PRN_SLURM_FAULT_GRES,
    PRN_SLURM_FAULT_NODES, /* no node has all of it */
    PRN_SLURM_FAULT_ACCOUNT,
    PRN_SLURM_FAULT_QOS,
    PRN_SLURM_FAULT_TIME,
    PRN_SLURM_FAULT_OPTIONS,
};

enum prn_slurm_fault prn_slurm_fault(const char *complaint);

/* Whether it is about how many jobs there are, so that another one is taken when some have ended:
 * of this user, or of all who share something. */
enum prn_slurm_full { PRN_SLURM_NOT_FULL, PRN_SLURM_FULL_USER, PRN_SLURM_FULL_GROUP };

enum prn_slurm_full prn_slurm_full(const char *complaint);

#endif
