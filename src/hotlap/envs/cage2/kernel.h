/* CAGE Challenge 2 in C: the rules of reference.py and the files it names, bit for bit. The scenario comes as tables, all other
 * constants as macros (tables.py).
 *
 * Sets of hosts, ports and decoys are bit masks. The table that Blue sees is 52 bits of one number.
 */
#include "history.h"
#include "red.h"
#include "state.h"

/* -- start -- */

FN void clear_host(Env *env, const Tables *tables, int host) {
    for (int i = 0; i < 4; i++) env->sessions[host][i] = 0;
    for (int i = 0; i < DECOYS; i++) env->decoys[host][i] = 0;
    env->ports[host] = host_at(tables, host)->ports;
    env->sockets[host] = (uint8_t)host_at(tables, host)->sockets;
    if (host == FOOTHOLD) env->sessions[host][SESSION_PRIVILEGED] = 1;
}

FN void env_seed(Env *env, uint64_t seed) { rng_seed(&env->rng, seed); }

FN void env_restart(Env *env, const Tables *tables) {
    for (int host = 0; host < HOSTS; host++) {
        clear_host(env, tables, host);
        env->red_ports[host] = 0;
    }
    env->table = 0;
    env->ot_running = env->ot_active = env->ot_has_process = 1;
    env->ot_known = 0;
    env->held = env->privileged = env->addresses = env->names = bit(FOOTHOLD);
    env->shell_files = env->escalation_files = env->systems = 0;
    env->subnets = (uint8_t)bit(USER);
    env->reached = env->scanned = env->exploited = env->escalated = env->mapped = env->seen_scanned = 0;
    env->swept = env->stage = 0;
    env->user = env->enterprise = env->last_scan = env->target = NO_TARGET;
    env->kind = RED_SLEEP;
    env->success = env->blue_success = SUCCESS_UNKNOWN;
    env->exploit = env->session = env->blue_host = env->blue_entries = env->events = 0;
    env->detected = NOT_CREATED;
    env->steps = env->down = env->restores = 0;
#if SHOW_HISTORY
    forget_all(env);
#endif
    uint32_t agents = tables->settings[1];
    env->agent = tables->settings[2 + (agents > 1 ? rng_below(&env->rng, agents) : 0)];
}

FN void env_load(Env *env, const Tables *tables, const int32_t *start, int count) {
    (void)start, (void)count; /* a start is all in the tables */
    env_restart(env, tables);
}

/* -- Blue -- */

FN void believe(Env *env, int host, uint64_t level) {
    env->table = (env->table & ~(PRIVILEGED_LEVEL << 4 * host)) | level << 4 * host;
}

FN void count_sessions(Env *env, int host) {
    const uint8_t *sessions = env->sessions[host];
    uint16_t here = bit(host);
    env->held = (uint16_t)((env->held & ~here) | (sessions[0] | sessions[1] | sessions[2] | sessions[3] ? here : 0));
    env->privileged = (uint16_t)((env->privileged & ~here) | (sessions[SESSION_PRIVILEGED] ? here : 0));
}

FN void restore(Env *env, const Tables *tables, int host) {
    clear_host(env, tables, host);
    count_sessions(env, host);
    env->shell_files &= (uint16_t)~bit(host);
    env->escalation_files &= (uint16_t)~bit(host);
    if (host == OP_SERVER) {
        env->ot_running = env->ot_active = 1;
        env->ot_has_process = 0;
    }
    believe(env, host, 0);
    env->restores++;
}

/* Places the first of the decoys that the host accepts. */
FN int place_decoy(Env *env, const Tables *tables, int host, const uint8_t *decoys) {
    const Decoy *rows = (const Decoy *)tables->decoys;
    for (; *decoys != NO_DECOY; decoys++)
        if ((host_at(tables, host)->decoys >> *decoys & 1) && !(env->ports[host] & rows[*decoys].checked)) {
            env->decoys[host][*decoys]++;
            env->ports[host] |= rows[*decoys].opened;
            env->sockets[host]++;
            return 1;
        }
    return 0;
}

/* Returns the host whose files Blue has found, or NO_TARGET. */
FN int defend(Env *env, const Tables *tables, const uint8_t *command) {
    int kind = command[0], host = command[1], found = NO_TARGET;
    env->blue_success = kind == BLUE_SLEEP ? SUCCESS_UNKNOWN : SUCCESS_YES;
    env->blue_host = (uint8_t)host;
    env->blue_entries = 0;
    if (kind == BLUE_ANALYSE) {
        if ((env->shell_files | env->escalation_files) & bit(host)) found = host;
    } else if (kind == BLUE_REMOVE) {
        env->sessions[host][SESSION_ALERTED] = 0;
        count_sessions(env, host);
        if (env->table & PRIVILEGED_LEVEL << 4 * host) believe(env, host, UNKNOWN);
    } else if (kind == BLUE_DECOY) {
        env->blue_entries = (uint8_t)place_decoy(env, tables, host, command + 2);
        env->blue_success = env->blue_entries ? SUCCESS_YES : SUCCESS_NO;
    } else if (kind == BLUE_RESTORE) {
        restore(env, tables, host);
    }
    return found;
}

/* -- what Blue sees -- */

FN void look(Env *env, const Events *events, int found) {
    env->table &= ~(EACH_HOST * (ACTIVE | EXPLOITED));
    if (events->count) { /* a decoy alone shows nothing */
        int decoy = env->blue_entries && env->blue_host == env->target, entries = events->count + decoy;
        int many = entries >= MANY && events->ports >= MANY;
        int exploited = !many && (events->alert || (entries >= MANY && events->ports == 1));
        if (exploited) {
            believe(env, env->target, USER_LEVEL);
            env->table |= (ACTIVE | EXPLOITED) << 4 * env->target;
        } else if (many || !decoy) {
            env->table |= ACTIVE << 4 * env->target;
            if (SCAN_INPUTS >> env->target & 1) {
                env->seen_scanned |= bit(env->target);
                env->last_scan = env->target;
            }
        }
    }
    if (found != NO_TARGET) believe(env, found, PRIVILEGED_LEVEL);
}

FN void env_step(Env *env, const Tables *tables, const Action *actions, Step *step) {
    const uint8_t *command = tables->commands + actions[0] * COMMAND_FIELDS;
    Events events = {0, 0, 0};
    int found = defend(env, tables, command);
    if (env->agent == AGENT_B_LINE) decide_b_line(env, tables);
    if (env->agent == AGENT_MEANDER) decide_meander(env, tables);
    attack(env, tables, &events);
    look(env, &events, found);
#if SHOW_HISTORY
    remember(env, tables, command);
#endif
    int cost = 10 * count_bits(env->privileged & COST_10) + count_bits(env->privileged & COST_1);
    cost += env->ot_running ? 0 : DOWN_COST;
    cost += command[0] == BLUE_RESTORE ? RESTORE_COST : 0;
    env->down += !env->ot_running;
    step->reward[0] = (float)-cost / 10.0f;
    step->truncated[0] = ++env->steps >= tables->settings[0];
}

#if SHOW_TRUTH
FN void env_observe(const Env *env, const Tables *tables, int agent, Obs *obs) {
    (void)tables, (void)agent;
    int b_line = env->agent == AGENT_B_LINE, meander = env->agent == AGENT_MEANDER;
    *obs++ = env->blue_success;
    *obs++ = env->kind;
    *obs++ = env->target;
    *obs++ = env->exploit;
    *obs++ = env->success;
    *obs++ = env->detected;
    *obs++ = env->session;
    *obs++ = b_line && env->steps ? env->stage : UNUSED;
    for (int h = 0; h < HOSTS; h++) *obs++ = (h == env->blue_host) * env->blue_entries + (h == env->target) * env->events;
    for (int i = 0; i < 4 * HOSTS; i++) *obs++ = (Obs)(env->table >> i & 1);
    for (int h = 0; h < HOSTS; h++) *obs++ = (env->held >> h & 1) + (env->privileged >> h & 1);
    for (int i = 0; i < 4 * HOSTS; i++) *obs++ = env->sessions[i / 4][i % 4];
    for (int h = 0; h < HOSTS; h++) *obs++ = (env->shell_files >> h & 1) | (env->escalation_files >> h & 1) << 1;
    for (int i = 0; i < DECOYS * HOSTS; i++) *obs++ = env->decoys[i / DECOYS][i % DECOYS];
    for (int h = 0; h < HOSTS; h++) *obs++ = env->ports[h];
    for (int h = 0; h < HOSTS; h++) *obs++ = env->red_ports[h];
    for (int h = 0; h < HOSTS; h++)
        *obs++ = (env->addresses >> h & 1) | (env->names >> h & 1) << 1 | (env->systems >> h & 1) << 2;
    *obs++ = env->subnets;
    *obs++ = env->ot_running | env->ot_active << 1 | env->ot_has_process << 2 | env->ot_known << 3;
    *obs++ = b_line ? env->stage : UNUSED;
    *obs++ = b_line ? env->reached : UNUSED;
    *obs++ = b_line ? env->user : UNUSED;
    *obs++ = b_line ? env->enterprise : UNUSED;
    *obs++ = meander ? env->swept : UNUSED;
    *obs++ = meander ? env->scanned : UNUSED;
    *obs++ = meander ? env->exploited : UNUSED;
    *obs++ = meander ? env->escalated : UNUSED;
    *obs++ = meander ? env->mapped : UNUSED;
    *obs++ = meander && (env->kind == RED_ESCALATE || env->kind == RED_IMPACT) ? env->target : UNUSED;
    *obs++ = meander && env->kind == RED_EXPLOIT ? env->target : UNUSED;
}
#elif SHOW_HISTORY
FN void env_observe(const Env *env, const Tables *tables, int agent, Obs *obs) {
    (void)agent;
    show_history(env, tables, obs);
}
#else
FN void env_observe(const Env *env, const Tables *tables, int agent, Obs *obs) {
    (void)tables, (void)agent;
    const uint64_t table = env->table; /* which writing bytes could change, for all that a compiler knows */
    uint64_t bytes;
    for (int i = 0; i + 8 <= 4 * HOSTS; i += 8) {
        bytes = spread_bits(table >> i & 255);
        memcpy(obs + i, &bytes, 8);
    }
    bytes = spread_bits(table >> (4 * HOSTS - 4)); /* 13 hosts: one is left */
    memcpy(obs + 4 * HOSTS - 4, &bytes, 4);
#if SHOW_SCANS
    for (int h = 0, i = 4 * HOSTS; h < HOSTS; h++)
        if (SCAN_INPUTS >> h & 1) obs[i++] = (uint8_t)(h == env->last_scan ? 2 : env->seen_scanned >> h & 1);
#endif
}
#endif

FN void env_metrics(const Env *env, int agent, float *metrics) {
    (void)agent;
    metrics[0] = env->agent;
    metrics[1] = env->down;
    metrics[2] = env->restores;
}
