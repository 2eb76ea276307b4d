/* What Blue can remember of an episode (history.py), kept and shown if SHOW_HISTORY. */
#ifndef HOTLAP_CAGE2_HISTORY_H
#define HOTLAP_CAGE2_HISTORY_H

#include "state.h"

#if SHOW_HISTORY
#define WORDS ((HISTORY_BITS + 63) / 64)

FN uint64_t running_decoys(const Env *env, const Tables *tables) {
    uint64_t running = 0;
    for (int i = 0; i < PLACEABLE; i++)
        running |= (uint64_t)(env->decoys[tables->placeable[2 * i]][tables->placeable[2 * i + 1]] != 0) << i;
    return running;
}

FN void forget_all(Env *env) {
    env->known = 0;
    env->seen[0] = env->seen[1] = 0;
    for (int i = 0; i < KINDS_DONE; i++) env->done[i] = 0;
    for (int i = 0; i <= RECENT; i++) env->recent[i] = 0;
}

/* After a step, before it is counted. An entry of `recent` is 0, or 1 + the host, with HOSTS more if that was an exploit. */
FN void remember(Env *env, const Tables *tables, const uint8_t *command) {
    if (command[0] >= BLUE_ANALYSE) env->done[command[0] - BLUE_ANALYSE] |= bit(command[1]);
    for (int i = RECENT; i > 0; i--) env->recent[i] = env->recent[i - 1];
    env->recent[0] = 0;
    uint64_t active = env->table & EACH_HOST * ACTIVE;
    if (!active) return;
    int host = lowest_bit(active) / 4, exploit = (env->table >> 4 * host & EXPLOITED) != 0;
    env->recent[0] = (uint8_t)(1 + host + exploit * HOSTS);
    env->seen[exploit] |= bit(host);
    for (int i = 0; i < KINDS_DONE; i++) env->done[i] &= (uint16_t)~bit(host);
    if (exploit) return;
    uint64_t own = 0;
    for (int i = 0; i < PLACEABLE; i++) own |= (uint64_t)(tables->placeable[2 * i] == host) << i;
    env->known = (env->known & ~own) | (running_decoys(env, tables) & own);
}

FN void put(uint64_t *words, int *at, uint64_t bits, int count) {
    int word = *at / 64, shift = *at % 64;
    words[word] |= bits << shift;
    if (shift + count > 64) words[word + 1] |= bits >> (64 - shift);
    *at += count;
}

FN void show_history(const Env *env, const Tables *tables, Obs *obs) {
    uint64_t words[WORDS], bytes;
    int at = 0, over = 0;
    for (int i = 0; i < WORDS; i++) words[i] = 0;
    put(words, &at, env->table, 4 * HOSTS);
    put(words, &at, env->seen[0], HOSTS);
    put(words, &at, env->seen[1], HOSTS);
    put(words, &at, running_decoys(env, tables), PLACEABLE);
    put(words, &at, env->known, PLACEABLE);
    for (int i = 0; i < KINDS_DONE; i++) put(words, &at, env->done[i], HOSTS);
    for (int i = 1; i <= RECENT; i++) {
        int entry = env->recent[i], exploit = entry > HOSTS;
        put(words, &at, entry ? 1ULL << (entry - 1 - exploit * HOSTS) | (uint64_t)exploit << HOSTS : 0, HOSTS + 1);
    }
    while (over < NUM_TIMES && tables->times[over] <= env->steps) over++;
    put(words, &at, (1ULL << over) - 1, NUM_TIMES);
    for (int i = 0; i < HISTORY_BITS; i += 8) {
        bytes = spread_bits(words[i / 64] >> i % 64 & 255);
        memcpy(obs + i, &bytes, i + 8 <= HISTORY_BITS ? 8 : HISTORY_BITS % 8);
    }
}
#endif

#endif
