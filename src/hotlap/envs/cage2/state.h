/* The state of an environment, the rows of its tables, and what chance decides. */
#ifndef HOTLAP_CAGE2_STATE_H
#define HOTLAP_CAGE2_STATE_H

#include "../kernel.h"

typedef struct {
    Rng rng;
    uint64_t table;             /* what Blue sees, four bits for each host: see the masks */
    uint8_t sessions[HOSTS][4]; /* of Red, by kind */
    uint8_t decoys[HOSTS][DECOYS];
    uint16_t ports[HOSTS];     /* listening */
    uint16_t red_ports[HOSTS]; /* that Red remembers, with SCANNED */
    uint8_t sockets[HOSTS];    /* listening, two or more of them on one port at times */
    uint8_t ot_running, ot_active, ot_has_process, ot_known;
    uint16_t held, privileged; /* hosts with sessions, with privileged ones */
    uint16_t shell_files, escalation_files;
    uint16_t addresses, names, systems; /* that Red knows */
    uint16_t reached;                   /* B_line: stages */
    uint16_t scanned, exploited, escalated, mapped;
    uint16_t seen_scanned; /* scan inputs that are not 0 */
    uint8_t subnets, swept;
    uint8_t agent, stage;
    int8_t user, enterprise; /* that B_line has chosen, or NO_TARGET */
    int8_t last_scan;        /* the scan input that is 2, or NO_TARGET */
    int8_t target;           /* of Red's last attack */
    uint8_t kind, success, exploit, detected, session;
    uint8_t blue_success, blue_host, blue_entries, events; /* entries of Blue's decoy, and connections on `target` */
    uint8_t steps, down, restores;
#if SHOW_HISTORY
    uint64_t known; /* decoys: see history.h */
    uint16_t seen[2], done[KINDS_DONE];
    uint8_t recent[RECENT + 1];
#endif
} Env;

/* Bits of a host in the table of Blue. */
#define ACTIVE 1ULL
#define EXPLOITED 2ULL
#define UNKNOWN 4ULL
#define USER_LEVEL 8ULL
#define PRIVILEGED_LEVEL 12ULL
#define EACH_HOST 0x1111111111111ULL

/* Rows of tables. */
typedef struct {
    uint16_t ports, sockets, decoys, learnt, gains[ATTEMPTS];
} Host;

typedef struct {
    uint16_t exploit, port, also, decoys;
} Attempt;

typedef struct {
    uint16_t checked, opened;
} Decoy;

typedef struct {
    int8_t kind, target, fallback;
} Stage;

/* What Red's attack looks like on its target. */
typedef struct {
    int count, ports, alert;
} Events;

FN const Host *host_at(const Tables *tables, int host) { return (const Host *)tables->hosts + host; }

FN uint16_t bit(int number) { return (uint16_t)(1u << number); }

FN int nth_member(uint32_t mask, uint32_t n) {
    while (n--) mask &= mask - 1;
    return lowest_bit(mask);
}

/* -- chance -- */

#if REPLAY
FN const int16_t *recorded(const Env *env, const Tables *tables) { return tables->outcomes + env->steps * 4; }
#endif

FN int choose_host(Env *env, const Tables *tables, uint32_t candidates) {
#if REPLAY
    int target = recorded(env, tables)[0];
    return target >= 0 && (candidates >> target & 1) ? target : lowest_bit(candidates);
#else
    (void)tables;
    return nth_member(candidates, rng_below(&env->rng, (uint32_t)count_bits(candidates)));
#endif
}

/* One of the attempts, by its rank. */
FN int choose_attempt(Env *env, const Tables *tables, uint32_t options) {
#if REPLAY
    const Attempt *attempts = (const Attempt *)tables->attempts;
    for (int rank = 0; rank < ATTEMPTS; rank++)
        if ((options >> rank & 1) && attempts[rank].exploit == recorded(env, tables)[1]) return rank;
    return lowest_bit(options);
#else
    (void)tables;
    uint32_t others = options & (options - 1);
    if (!others || rng_below(&env->rng, FAVOURITE_IN)) return lowest_bit(options);
    return nth_member(others, rng_below(&env->rng, (uint32_t)count_bits(others)));
#endif
}

FN int raises_alert(Env *env, const Tables *tables) {
#if REPLAY
    return recorded(env, tables)[2] == 1;
#else
    (void)tables;
    return rng_below(&env->rng, ALERT_IN) != 0;
#endif
}

/* The kind of one of the sessions, none of which is privileged. */
FN int choose_session(Env *env, const Tables *tables, const uint8_t *sessions) {
#if REPLAY
    int kind = recorded(env, tables)[3];
    if (kind > 0 && sessions[kind]) return kind;
    kind = 1;
    while (!sessions[kind]) kind++;
    return kind;
#else
    (void)tables;
    int n = (int)rng_below(&env->rng, (uint32_t)(sessions[1] + sessions[2] + sessions[3])), kind = 1;
    while (n >= sessions[kind]) n -= sessions[kind++];
    return kind;
#endif
}

#endif
