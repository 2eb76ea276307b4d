/* Timed Petri nets in C: the rules of timed.py and reference.py, bit for bit. The net is in the tables (tables.py), so one build
 * runs every net of its sizes, a different one in each environment.
 *
 * The tokens of a place are a linked list, first in first. When a token comes, all times that its place gives it are noted with
 * it, so that what is done for all tokens at each step looks up no place.
 */
#include "../kernel.h"

#define NEVER 0x7FFFFFFF /* also in tables: no limit */

#if TOKENS < 255
typedef uint8_t Token;
#else
typedef uint16_t Token;
#endif
#define NO_TOKEN ((Token)TOKENS)

typedef struct {
    int32_t time, waiting, tokens, done;
    int32_t count[PLACES];
    int32_t head_ready[PLACES]; /* when the first token of a place is ready; 0 for resources */
    int32_t arrived[TOKENS], ready[TOKENS], late[TOKENS], scrap[TOKENS]; /* of tokens that exist */
    int16_t place[TOKENS];                                               /* -1: there is no such token */
    uint8_t role[TOKENS];
    Token next[TOKENS], head[PLACES], tail[PLACES];
} Env;

/* Rows of tables. */
typedef struct {
    int32_t tokens, capacity, process, scrap_after, role;
} Place;

typedef struct {
    int32_t duration, taken, put, guards;
} Transition;

typedef struct {
    int32_t place, number; /* a weight, or the most tokens there can be */
} Arc;

typedef struct {
    int32_t wait, max_time, waiting_limit, transport_grace, token_limit, stop_when_dead, places, transitions;
} Settings;

typedef struct {
    double time, processing, chamber_overtime, transport_overtime, token, finish, scrap, deadlock, timeout, waiting;
} Rates;

FN const Place *place_at(const Tables *tables, int place) { return (const Place *)tables->place + place; }

FN const Transition *transition_at(const Tables *tables, int transition) {
    return (const Transition *)tables->transition + transition;
}

FN const Arc *inputs_of(const Tables *tables, int transition) { return (const Arc *)tables->inputs + transition * ARCS; }

FN const Arc *outputs_of(const Tables *tables, int transition) { return (const Arc *)tables->outputs + transition * ARCS; }

FN const Settings *settings_of(const Tables *tables) { return (const Settings *)tables->settings; }

FN int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }

FN int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }

/* -- tokens -- */

FN void put_token(Env *env, const Tables *tables, Token token, int number, int32_t arrived) {
    const Place *place = place_at(tables, number);
    env->place[token] = (int16_t)number;
    env->role[token] = (uint8_t)place->role;
    env->arrived[token] = arrived;
    env->ready[token] = arrived + place->process;
    env->late[token] = arrived + settings_of(tables)->transport_grace;
    env->scrap[token] = place->scrap_after == NEVER ? NEVER : arrived + place->scrap_after;
    env->next[token] = NO_TOKEN;
    if (env->count[number]++) {
        env->next[env->tail[number]] = token;
    } else {
        env->head[number] = token;
        env->head_ready[number] = env->ready[token];
    }
    env->tail[number] = token;
    env->tokens++;
    env->done += place->role == SINK;
}

FN Token take_token(Env *env, int number) {
    Token token = env->head[number], next = env->next[token];
    env->head[number] = next;
    env->count[number]--;
    if (next != NO_TOKEN) env->head_ready[number] = env->ready[next];
    env->tokens--;
    env->done -= env->role[token] == SINK;
    env->place[token] = -1;
    return token;
}

FN Token unused_token(const Env *env) {
    int token = 0;
    while (env->place[token] >= 0) token++;
    return (Token)token;
}

/* The tokens that are taken wait in a list of their own until they are put down. */
FN void fire(Env *env, const Tables *tables, int transition) {
    const Arc *inputs = inputs_of(tables, transition), *outputs = outputs_of(tables, transition);
    Token first = NO_TOKEN, last = NO_TOKEN;
    for (int arc = 0; arc < ARCS && inputs[arc].number; arc++) {
        int place = inputs[arc].place;
        if (place_at(tables, place)->role == RESOURCE) {
            env->count[place] -= inputs[arc].number;
            continue;
        }
        for (int i = 0; i < inputs[arc].number; i++) {
            Token token = take_token(env, place);
            if (first == NO_TOKEN)
                first = token;
            else
                env->next[last] = token;
            last = token;
            env->next[token] = NO_TOKEN;
        }
    }
    for (int arc = 0; arc < ARCS && outputs[arc].number; arc++) {
        int place = outputs[arc].place;
        if (place_at(tables, place)->role == RESOURCE) {
            env->count[place] += outputs[arc].number;
            continue;
        }
        for (int i = 0; i < outputs[arc].number; i++) {
            Token token = first;
            if (token == NO_TOKEN)
                token = unused_token(env);
            else
                first = env->next[token];
            put_token(env, tables, token, place, env->time);
        }
    }
}

/* -- what may fire -- */

/* Whether a transition could fire if all tokens were ready. */
FN int fits(const Env *env, const Tables *tables, int transition) {
    const Arc *inputs = inputs_of(tables, transition), *ceilings = (const Arc *)tables->ceilings + transition * 2 * ARCS;
    const Transition *row = transition_at(tables, transition);
    int made = row->put - row->taken;
    int fine = (made <= 0) | (env->tokens + made <= settings_of(tables)->token_limit);
    for (int arc = 0; arc < ARCS; arc++) fine &= env->count[inputs[arc].place] >= inputs[arc].number;
    for (int arc = 0; arc < 2 * ARCS; arc++) fine &= env->count[ceilings[arc].place] <= ceilings[arc].number;
    return fine;
}

/* Whether the tokens that it takes are ready; it must fit. */
FN int are_ready(const Env *env, const Tables *tables, int transition) {
    const Arc *inputs = inputs_of(tables, transition);
    int fine = 1;
    for (int arc = 0; arc < ARCS; arc++) {
        int place = inputs[arc].place, weight = inputs[arc].number;
        fine &= (weight == 0) | (env->head_ready[place] <= env->time);
        if (weight > 1 && place_at(tables, place)->role != RESOURCE) {
            Token token = env->head[place]; /* the youngest that is taken */
            for (int i = 1; i < weight; i++) token = env->next[token];
            fine &= env->ready[token] <= env->time;
        }
    }
    return fine;
}

FN int is_dead(const Env *env, const Tables *tables) {
    for (int transition = 0; transition < TRANSITIONS; transition++)
        if (fits(env, tables, transition)) return 0;
    return 1;
}

FN void env_mask(const Env *env, const Tables *tables, int agent, uint8_t *mask) {
    (void)agent;
    for (int transition = 0; transition < TRANSITIONS; transition++)
        mask[transition] = (uint8_t)(fits(env, tables, transition) && are_ready(env, tables, transition));
    mask[TRANSITIONS] = 1;
}

/* -- episode -- */

FN void env_seed(Env *env, uint64_t seed) { /* nothing is random */
    (void)env;
    (void)seed;
}

FN void clear(Env *env) {
    env->time = env->waiting = env->tokens = env->done = 0;
    for (int place = 0; place < PLACES; place++) env->count[place] = env->head_ready[place] = 0;
    for (int place = 0; place < PLACES; place++) env->head[place] = env->tail[place] = NO_TOKEN;
    for (int token = 0; token < TOKENS; token++) {
        env->place[token] = -1;
        env->arrived[token] = env->ready[token] = env->late[token] = env->scrap[token] = 0;
        env->role[token] = 0;
        env->next[token] = NO_TOKEN;
    }
}

/* `counts`: tokens by place; NULL: those of the net. `stays`: of all identified tokens; NULL: 0. */
FN void begin(Env *env, const Tables *tables, const int32_t *counts, const int32_t *stays) {
    clear(env);
    int token = 0;
    for (int number = 0; number < PLACES; number++) {
        const Place *place = place_at(tables, number);
        int count = counts ? counts[number] : place->tokens;
        if (place->role == RESOURCE) {
            env->count[number] = count;
            continue;
        }
        for (int i = 0; i < count; i++, token++) put_token(env, tables, (Token)token, number, stays ? -stays[token] : 0);
    }
}

FN void env_restart(Env *env, const Tables *tables) { begin(env, tables, 0, 0); }

FN void env_load(Env *env, const Tables *tables, const int32_t *start, int count) {
    (void)count;
    begin(env, tables, start, start + PLACES);
}

/* What the tokens earn in an interval, and whether one is scrap at its end. */
typedef struct {
    int32_t processing, chamber_overtime, transport_overtime, scrapped;
} Seconds;

FN Seconds run(const Env *env, int32_t from, int32_t to) {
    Seconds sum = {0, 0, 0, 0};
    for (int token = 0; token < TOKENS; token++) {
        int there = env->place[token] >= 0;
        int32_t chamber = -(there & (env->role[token] == CHAMBER)), transport = -(there & (env->role[token] == TRANSPORT));
        sum.processing += chamber & most(0, least(to, env->ready[token]) - from);
        sum.chamber_overtime += chamber & most(0, to - most(from, env->ready[token]));
        sum.transport_overtime += transport & most(0, to - most(from, env->late[token]));
        sum.scrapped |= there & (env->scrap[token] < to);
    }
    return sum;
}

FN void env_step(Env *env, const Tables *tables, const Action *actions, Step *step) {
    const Settings *settings = settings_of(tables);
    const Rates *rates = (const Rates *)tables->rates;
    int action = (int)actions[0], done_before = env->done, waiting_before = env->waiting, seconds;
    if (action == TRANSITIONS) {
        seconds = settings->wait;
        env->waiting += seconds;
    } else {
        seconds = transition_at(tables, action)->duration;
        env->waiting = 0;
        fire(env, tables, action);
    }
    Seconds spent = run(env, env->time, env->time + seconds);
    env->time += seconds;
    double reward = rates->time * seconds;
    reward += rates->processing * spent.processing;
    reward += rates->chamber_overtime * spent.chamber_overtime;
    reward += rates->transport_overtime * spent.transport_overtime;
    reward += rates->token * (env->done - done_before);
    if (waiting_before < settings->waiting_limit && settings->waiting_limit <= env->waiting) reward += rates->waiting;
    int terminated = 1;
    if (env->done && env->done == env->tokens)
        reward += rates->finish;
    else if (spent.scrapped)
        reward += rates->scrap;
    else if (settings->stop_when_dead && is_dead(env, tables))
        reward += rates->deadlock;
    else
        terminated = 0;
    int truncated = !terminated && env->time >= settings->max_time;
    if (truncated) reward += rates->timeout;
    step->reward[0] = (float)reward;
    step->terminated[0] = (uint8_t)terminated;
    step->truncated[0] = (uint8_t)truncated;
}

FN void env_metrics(const Env *env, int agent, float *metrics) {
    (void)agent;
    metrics[0] = (float)env->time;
    metrics[1] = (float)env->done;
    metrics[2] = (float)(env->done && env->done == env->tokens);
    metrics[3] = (float)run(env, env->time, env->time).scrapped;
}

/* -- observation -- */

FN float scaled(int32_t seconds) { return (float)(most(-FAR, least(FAR, seconds)) * TIME_UNIT); }

FN float until_scrap(const Env *env, Token token) {
    return scaled(env->scrap[token] == NEVER ? FAR : env->scrap[token] - env->time);
}

FN float share_of(const Env *env, const Tables *tables, int place) {
    double share = env->count[place] * tables->place_scale[place];
    return (float)(share < 10.0 ? share : 10.0);
}

FN void env_observe(const Env *env, const Tables *tables, int agent, Obs *obs) {
    const Settings *settings = settings_of(tables);
    (void)agent;
#if FEATURES_TOKENS
    for (int token = 0; token < TOKENS; token++, obs += 5) {
        int place = env->place[token];
        if (place < 0) {
            obs[0] = obs[1] = obs[2] = obs[3] = obs[4] = 0;
            continue;
        }
        obs[0] = tables->token_code[token];
        obs[1] = tables->place_code[place * 2];
        obs[2] = tables->place_code[place * 2 + 1];
        obs[3] = scaled(env->time - env->arrived[token]);
        obs[4] = until_scrap(env, (Token)token);
    }
    for (int place = 0; place < PLACES; place++) *obs++ = share_of(env, tables, place);
#else
    for (int place = 0; place < PLACES; place++, obs += 5) {
        Token head = env->head[place];
        obs[0] = share_of(env, tables, place);
        if (head == NO_TOKEN) {
            obs[1] = obs[2] = obs[3] = obs[4] = 0;
            continue;
        }
        obs[1] = (float)(env->ready[head] <= env->time);
        obs[2] = scaled(most(0, env->ready[head] - env->time));
        obs[3] = until_scrap(env, head);
        obs[4] = scaled(most(0, env->ready[env->tail[place]] - env->time));
    }
#endif
    int limit = settings->waiting_limit;
    obs[0] = (float)((double)least(env->waiting, limit) / most(1, limit));
    obs[1] = (float)((double)least(env->time, settings->max_time) / settings->max_time);
}
