/* Red: how B_line and Meander decide (red.py), and what their attacks do (network.py). */
#ifndef HOTLAP_CAGE2_RED_H
#define HOTLAP_CAGE2_RED_H

#include "state.h"

/* -- Red decides -- */

FN void decide_b_line(Env *env, const Tables *tables) {
    const Stage *script = (const Stage *)tables->script;
    int stage = env->stage;
    if (env->success == SUCCESS_YES)
        stage += stage < STAGES - 1;
    else
        stage = script[stage].fallback;
    int blind = !(env->red_ports[OP_SERVER] & SCANNED);
    if (stage == ATTACK_OP_SERVER && blind && !(env->reached & bit(stage))) stage = CHOOSE_USER;
    if (stage == CHOOSE_USER && env->user == NO_TARGET) env->user = (int8_t)choose_host(env, tables, USERS);
    if (stage == CHOOSE_ENTERPRISE) env->enterprise = (int8_t)lowest_bit(host_at(tables, env->user)->learnt); /* itself is higher */
    env->reached |= bit(stage);
    env->stage = (uint8_t)stage;
    env->kind = (uint8_t)script[stage].kind;
    int target = script[stage].target;
    env->target = (int8_t)(target == CHOSEN_USER ? env->user : target == CHOSEN_ENTERPRISE ? env->enterprise : target);
}

/* What came of Meander's last attack. */
FN void digest(Env *env) {
    int worked = env->success == SUCCESS_YES;
    uint16_t target = env->kind >= RED_EXPLOIT ? bit(env->target) : 0;
    if (env->kind == RED_EXPLOIT && worked) {
        env->mapped |= target;
    } else if (env->kind == RED_EXPLOIT) {
        uint16_t forgotten = env->escalated & OPERATIONAL_HOSTS ? OPERATIONAL_HOSTS : GATES;
        env->escalated &= (uint16_t)~forgotten;
        env->exploited &= (uint16_t)~(forgotten | target);
    } else if (!worked) {
        env->escalated &= (uint16_t)~target;
        env->exploited &= (uint16_t)~(target & env->mapped);
    }
}

FN void decide_meander(Env *env, const Tables *tables) {
    digest(env);
    uint32_t unswept = env->subnets & ~(uint32_t)env->swept;
    uint32_t unscanned = env->addresses & ~(uint32_t)env->scanned;
    uint32_t lost = env->mapped & ~(uint32_t)env->exploited;
    uint32_t low = env->names & ~((uint32_t)env->escalated | lost);
    uint32_t fresh = env->addresses & ~(uint32_t)env->exploited;
    int target;
    if (env->escalated & bit(OP_SERVER)) {
        env->kind = RED_IMPACT;
        target = OP_SERVER;
    } else if (unswept) {
        env->kind = RED_SWEEP;
        target = SUBNET_TARGET + lowest_bit(unswept);
        env->swept |= (uint8_t)(unswept & (0 - unswept));
    } else if (unscanned | low | fresh) {
        env->kind = unscanned ? RED_SCAN : low ? RED_ESCALATE : RED_EXPLOIT;
        target = choose_host(env, tables, unscanned ? unscanned : low ? low : fresh);
        uint16_t *noted = unscanned ? &env->scanned : low ? &env->escalated : &env->exploited;
        *noted |= bit(target);
    } else {
        env->kind = RED_SLEEP;
        target = NO_TARGET;
    }
    env->target = (int8_t)target;
}

/* -- Red acts -- */

FN int reachable(const Env *env, uint32_t hosts) { return !(hosts & OPERATIONAL_HOSTS) || (env->held & GATES); }

FN int sweep(Env *env, int subnet) {
    uint16_t hosts = subnet == ENTERPRISE ? ENTERPRISE_HOSTS : subnet == OPERATIONAL ? OPERATIONAL_HOSTS : USER_HOSTS;
    if (!reachable(env, hosts)) return 0;
    env->addresses |= hosts;
    return 1;
}

FN void scan(Env *env, int host, Events *events) {
    if (!reachable(env, bit(host))) return;
    env->red_ports[host] = env->ports[host] | SCANNED;
    events->count = env->sockets[host];
    events->ports = count_bits(env->ports[host]);
}

/* An exploit of a real service works. */
FN void break_in(Env *env, const Tables *tables, int host, int gain, Events *events) {
    env->names |= bit(host);
    env->systems |= bit(host);
    env->held |= bit(host);
    if (gain == GAIN_LOGIN) {
        env->sessions[host][SESSION_SSH]++;
        events->count = BRUTE_FORCE_EVENTS + 1;
        return;
    }
    events->alert = env->detected = (uint8_t)raises_alert(env, tables);
    events->count = events->ports = 1 + events->alert; /* an alert counts as a port of its own */
    env->shell_files |= bit(host);
    if (gain == GAIN_ROOT_SHELL) env->privileged |= bit(host);
    env->sessions[host][gain == GAIN_ROOT_SHELL ? SESSION_PRIVILEGED : events->alert ? SESSION_ALERTED : SESSION_QUIET]++;
}

FN int exploit(Env *env, const Tables *tables, int host, Events *events) {
    const Attempt *attempts = (const Attempt *)tables->attempts;
    uint32_t remembered = env->red_ports[host], options = 0;
    if (!(remembered & SCANNED)) return 0;
    for (int rank = 0; rank < ATTEMPTS; rank++) {
        uint32_t possible = (remembered & attempts[rank].port) && (!attempts[rank].also || (remembered & attempts[rank].also));
        options |= possible << rank;
    }
    int rank = choose_attempt(env, tables, options), gain = host_at(tables, host)->gains[rank], caught = 0;
    env->exploit = (uint8_t)attempts[rank].exploit;
    if (!reachable(env, bit(host))) return 0;
    events->ports = 1;
    if (gain != GAIN_NOTHING && gain != GAIN_REFUSED) {
        break_in(env, tables, host, gain, events);
        return 1;
    }
    for (int decoy = 0; decoy < DECOYS; decoy++) caught |= (attempts[rank].decoys >> decoy & 1) && env->decoys[host][decoy];
    if (gain == GAIN_REFUSED || caught) events->count = rank == ATTEMPTS - 1 ? BRUTE_FORCE_EVENTS : 2; /* the last is SSH */
    return 0;
}

FN int escalate(Env *env, const Tables *tables, int host) {
    if (!(env->held & bit(host))) return 0;
    if (!(env->privileged & bit(host))) {
        env->session = (uint8_t)choose_session(env, tables, env->sessions[host]);
        env->sessions[host][env->session]--;
        env->sessions[host][SESSION_PRIVILEGED]++;
        env->privileged |= bit(host);
        env->escalation_files |= bit(host);
    }
    env->addresses |= host_at(tables, host)->learnt;
    int operational = (OPERATIONAL_HOSTS >> host & 1) != 0;
    env->subnets |= (uint8_t)bit(ENTERPRISE_HOSTS >> host & 1 ? ENTERPRISE : operational ? OPERATIONAL : USER);
    env->ot_known |= host == OP_SERVER;
    return 1;
}

FN int impact(Env *env) {
    if (!(env->held & bit(OP_SERVER)) || !env->ot_known) return 0;
    if (env->ot_active && env->ot_has_process) env->ot_running = 0;
    env->ot_active = 0;
    return 1;
}

FN void attack(Env *env, const Tables *tables, Events *events) {
    int worked = 1;
    env->exploit = env->session = 0;
    env->detected = NOT_CREATED;
    if (env->kind == RED_SWEEP) worked = sweep(env, env->target - SUBNET_TARGET);
    if (env->kind == RED_SCAN) scan(env, env->target, events);
    if (env->kind == RED_EXPLOIT) worked = exploit(env, tables, env->target, events);
    if (env->kind == RED_ESCALATE) worked = escalate(env, tables, env->target);
    if (env->kind == RED_IMPACT) worked = impact(env);
    env->success = env->kind == RED_SLEEP ? SUCCESS_UNKNOWN : worked ? SUCCESS_YES : SUCCESS_NO;
    env->events = (uint8_t)events->count;
}

#endif
