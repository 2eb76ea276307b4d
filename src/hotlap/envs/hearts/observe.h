/* What the seat to move sees, as the places of the ones: information.py and relative.py in C. Included by kernel.h, after Env. */

/* The places of the ones that the seat to move sees, or saw at an earlier decision, in ascending order; returns how many. `ones`
 * has room for MOST_ONES. */
FN int list_ones(const Env *env, const Moment *at, int16_t *ones) {
    int count = at->num_known;
    memcpy(ones, env->known[env->seat], sizeof env->known[0]);
#if HISTORY > 1
    /* while cards are passed: those that had been chosen by then */
    if (count < MOST_KNOWN) list_cards(ones + KNOWN_PASSED, CARDS_PASSED, AT_PASSED, env->dealt[env->seat] & ~at->hand);
#endif
    list_cards(ones + count, NUM_TRICKS, AT_HAND, at->hand);
    count += count_bits(at->hand);
    for (int seat = 0; seat < NUM_SEATS; seat++) {
        for (int k = 0; k < THERMOMETER; k++) ones[count + k] = (int16_t)(AT_POINTS + seat * THERMOMETER + k);
        count += at->points[seat] + POINTS_OFFSET;
    }
    memcpy(ones + count, env->history, sizeof env->history);
    return count + at->num_played;
}

#if RELATIVE
/* All cards up to the highest of a set, of whatever suit. */
FN uint64_t up_to_highest(uint64_t cards) {
    for (int shift = 1; shift < 64; shift *= 2) cards |= cards >> shift;
    return cards;
}

/* What the cards of the hand can do, and what is out against them. */
FN int list_strength(const Env *env, int16_t *ones) {
    const uint64_t hand = env->hand[env->seat];
    uint64_t out = ~hand & (CARD(NUM_CARDS) - 1), highest = 0;
    for (int seat = 0; seat < NUM_SEATS; seat++) out &= ~env->played[seat];
    for (int suit = 0; suit < 4; suit++) highest |= hand & SUIT(suit) & ~up_to_highest(out & SUIT(suit));
    const int turn = env->num_played % NUM_SEATS, best = env->best_card;
    const uint64_t holds = turn ? hand & SUIT(best % 4) & ~up_to_highest(CARD(best)) : 0;
    list_cards(ones, NUM_TRICKS, REL_HOLDS, holds);
    int count = count_bits(holds);
    list_cards(ones + count, NUM_TRICKS, REL_HIGHEST, highest);
    count += count_bits(highest);
    for (int suit = 0; suit < 4; suit++) {
        const int others = count_bits(out & SUIT(suit));
        ones[count] = (int16_t)(REL_OUT + suit * NUM_TRICKS + others - 1);
        count += others > 0;
    }
    return count;
}

/* See relative.py; in ascending order too. */
FN int list_relative(const Env *env, int16_t *ones) {
    const int me = env->seat, turn = env->num_played % NUM_SEATS, passing = is_passing(env);
    int count = 0;
    list_cards(ones, NUM_TRICKS, REL_HAND, env->hand[me]);
    count += count_bits(env->hand[me]);
    for (int k = 0; k < NUM_SEATS; k++) {
        const uint64_t played = env->played[(me + k) & 3];
        list_cards(ones + count, NUM_TRICKS, REL_PLAYED + k * NUM_CARDS, played);
        count += count_bits(played);
    }
    for (int k = 1; k < NUM_SEATS; k++) {
        const int card = env->table[(me + k) & 3];
        ones[count] = (int16_t)(REL_TABLE + (k - 1) * NUM_CARDS + card);
        count += card < NUM_CARDS;
    }
    const uint64_t held = passing ? env->passed[me] : env->passed[me] & env->hand[(me + env->direction) & 3];
    if (env->direction) {
        list_cards(ones + count, CARDS_PASSED, REL_GIVEN + (env->direction - 1) * NUM_CARDS, held);
        count += count_bits(held);
    }
    if (turn) ones[count++] = (int16_t)(REL_BEST + env->best_card);
    for (int k = 1; k < NUM_SEATS; k++)
        for (int suit = 0; suit < 4; suit++) {
            ones[count] = (int16_t)(REL_VOID + (k - 1) * 4 + suit);
            count += env->voids[(me + k) & 3] >> suit & 1;
        }
    for (int k = 0; k < NUM_SEATS; k++) {
        const int points = env->points[(me + k) & 3];
        ones[count] = (int16_t)(REL_POINTS + k * ALL_POINTS + points - 1);
        count += points > 0;
    }
    if (!passing && env->num_played < NUM_CARDS) {
        ones[count++] = (int16_t)(REL_TRICK + env->num_played / NUM_SEATS);
        ones[count++] = (int16_t)(REL_TURN + turn);
    }
    if (turn) ones[count++] = (int16_t)(REL_SUIT + env->best_card % 4);
    if (env->broken) ones[count++] = REL_BROKEN;
    ones[count++] = (int16_t)(REL_DIRECTION + env->direction);
    if (passing) ones[count++] = (int16_t)(REL_PASSING + count_bits(env->passed[me]));
    return count + list_strength(env, ones + count);
}
#endif

#if HISTORY
/* The last observations of the seat to move, then which seat it is. `ones` has room for MOST_ONES of the last one. */
FN int list_history(const Env *env, int16_t *ones) {
    Moment now;
    set_moment(env, &now);
    int count = 0;
#if HISTORY > 1
    const int num_past = env->num_past[env->seat];
    for (int k = 0; k < num_past; k++) {
        const int number = list_ones(env, env->past[env->seat] + k, ones + count);
        for (int i = 0; i < number; i++) ones[count + i] += (int16_t)((HISTORY - 1 - num_past + k) * NUM_PLACES);
        count += number;
    }
#endif
    const int number = list_ones(env, &now, ones + count);
    for (int i = 0; i < number; i++) ones[count + i] += (int16_t)((HISTORY - 1) * NUM_PLACES);
    count += number;
    ones[count++] = (int16_t)(HISTORY * NUM_PLACES + env->seat);
    return count;
}
#endif

FN int list_seen(const Env *env, int16_t *ones) {
#if RELATIVE
    return list_relative(env, ones);
#elif HISTORY
    return list_history(env, ones);
#else
    Moment now;
    set_moment(env, &now);
    return list_ones(env, &now, ones);
#endif
}
