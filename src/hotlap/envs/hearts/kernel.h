/* Hearts in C: the rules of reference.py, bit for bit. All constants arrive as macros from there.
 *
 * A set of cards is a word with a bit for each card, so a suit is every fourth bit and the highest card of a suit is the greatest
 * number. Most ones of an observation stay where they are during a hand: `known` and `history` hold their places, and an
 * observation is those, the hand and the points. Runs are written in their full length and cut by what follows, and which cards
 * are legal is computed without branches: what depends on the cards is a coin toss, and a wrong guess costs more than that.
 */
#include "../kernel.h"

#define SUIT(suit) (0x1111111111111ULL << (suit))
#define CARD(card) (1ULL << (card))
#define PENALTY_CARDS (SUIT(HEARTS) | CARD(QUEEN_OF_SPADES))
#define ALL_PASSED (NUM_SEATS * CARDS_PASSED)
#define KNOWN_PASSED (1 + NUM_TRICKS) /* where `known` has the cards passed, after direction and cards dealt */
#define KNOWN_RECEIVED (KNOWN_PASSED + CARDS_PASSED)
#define MOST_KNOWN (KNOWN_RECEIVED + CARDS_PASSED)

/* What a seat saw at a decision of its own follows from these. No gaps, so that states compare by bytes. */
typedef struct {
    uint64_t hand;
    int8_t points[NUM_SEATS];
    uint16_t num_known, num_played;
} Moment;

typedef struct {
    Rng rng;
    uint64_t hand[NUM_SEATS], dealt[NUM_SEATS], passed[NUM_SEATS];
    int16_t known[NUM_SEATS][MOST_KNOWN]; /* places of: direction, cards dealt, passed and received */
    int16_t history[NUM_CARDS];           /* places of the cards played; those to come are padding */
    uint8_t num_known[NUM_SEATS];
    int8_t points[NUM_SEATS], penalty[NUM_SEATS];
    uint8_t direction, num_passed, num_played, seat, leader, best_seat, broken, shot;
    uint8_t best_card;                  /* highest card of the suit led */
    int8_t trick_points, trick_penalty; /* of the trick on the table: with the jack of diamonds, and without */
    uint8_t winners;                    /* seats that took a trick, as bits */
#if RELATIVE
    uint64_t played[NUM_SEATS];
    uint8_t voids[NUM_SEATS]; /* suits that a seat did not follow, as bits */
    uint8_t table[NUM_SEATS]; /* the card of each seat that is on the table; NUM_CARDS: none */
#endif
#if HISTORY > 1
    Moment past[NUM_SEATS][HISTORY - 1]; /* the last decisions of each seat, oldest first */
    uint8_t num_past[NUM_SEATS];
#endif
} Env;

FN uint64_t choose(int condition, uint64_t yes, uint64_t no) { return no ^ ((yes ^ no) & -(uint64_t)(condition != 0)); }

/* The places of a set of at most `most` cards; what is written beyond them has no meaning. */
FN void list_cards(int16_t *ones, int most, int begin, uint64_t cards) {
    for (int k = 0; k < most; k++, cards &= cards - 1) ones[k] = (int16_t)(begin + lowest_bit(cards | CARD(NUM_CARDS)));
}

FN int is_passing(const Env *env) { return (env->direction > 0) & (env->num_passed < ALL_PASSED); }

FN void begin_play(Env *env) {
    for (int seat = 0; seat < NUM_SEATS; seat++) {
        if (env->direction) {
            list_cards(env->known[seat] + KNOWN_RECEIVED, CARDS_PASSED, AT_RECEIVED, env->passed[(seat - env->direction) & 3]);
            env->num_known[seat] = MOST_KNOWN;
        }
        if (env->hand[seat] & CARD(TWO_OF_CLUBS)) env->seat = (uint8_t)seat;
    }
}

/* The i-th card of the deck goes to seat i % 4. */
FN void deal_hands(Env *env, const uint8_t *deck) {
    env->num_passed = env->num_played = env->winners = env->shot = env->seat = 0;
    env->trick_points = env->trick_penalty = 0;
    env->broken = !MUST_BREAK_HEARTS;
    for (int seat = 0; seat < NUM_SEATS; seat++) {
        uint64_t hand = 0;
        for (int i = seat; i < NUM_CARDS; i += NUM_SEATS) hand |= CARD(deck[i]);
        env->hand[seat] = env->dealt[seat] = hand;
        env->passed[seat] = 0;
        env->points[seat] = env->penalty[seat] = 0;
        env->known[seat][0] = (int16_t)(AT_DIRECTION + env->direction);
        list_cards(env->known[seat] + 1, NUM_TRICKS, AT_DEALT, hand);
        env->num_known[seat] = KNOWN_PASSED;
#if RELATIVE
        env->played[seat] = env->voids[seat] = 0;
        env->table[seat] = NUM_CARDS;
#endif
#if HISTORY > 1
        env->num_past[seat] = 0;
#endif
    }
    for (int i = 0; i < NUM_CARDS; i++) env->history[i] = NUM_PLACES;
    if (!env->direction) begin_play(env);
}

FN void draw_direction(Env *env) { env->direction = PASS_CARDS ? (uint8_t)rng_below(&env->rng, NUM_SEATS) : 0; }

FN void deal_at_random(Env *env) {
    uint8_t deck[NUM_CARDS];
    for (int i = 0; i < NUM_CARDS; i++) deck[i] = (uint8_t)i;
    for (int i = NUM_CARDS - 1; i > 0; i--) {
        int j = (int)rng_below(&env->rng, (uint32_t)i + 1);
        uint8_t card = deck[i];
        deck[i] = deck[j];
        deck[j] = card;
    }
    deal_hands(env, deck);
}

FN void env_seed(Env *env, uint64_t seed) { rng_seed(&env->rng, seed); }

FN void env_restart(Env *env, const Tables *tables) {
    (void)tables;
    draw_direction(env);
    deal_at_random(env);
}

/* The pass direction, or -1 for a random one; then the deck, or nothing for a random one. */
FN void env_load(Env *env, const Tables *tables, const int32_t *start, int count) {
    (void)tables;
    if (start[0] < 0)
        draw_direction(env);
    else
        env->direction = (uint8_t)start[0];
    if (count <= NUM_CARDS) {
        deal_at_random(env);
        return;
    }
    uint8_t deck[NUM_CARDS];
    for (int i = 0; i < NUM_CARDS; i++) deck[i] = (uint8_t)start[1 + i];
    deal_hands(env, deck);
}

FN int env_seat(const Env *env) { return env->seat; }

FN uint64_t legal_cards(const Env *env) {
    const uint64_t hand = env->hand[env->seat], queen = CARD(QUEEN_OF_SPADES);
    uint64_t follows = hand & SUIT(env->best_card % 4);
    const int harmless = NO_PTS_ON_FIRST_TRICK && env->num_played < NUM_SEATS;
    follows = choose(follows != 0, follows, hand & ~choose(harmless, PENALTY_CARDS, 0));
    uint64_t leads = hand & ~choose(env->broken, 0, SUIT(HEARTS));
    if (CAN_LEAD_HEARTS_INSTEAD_OF_QS) leads = choose(leads == queen, hand, leads);
    const uint64_t opening = hand & (CAN_LEAD_ANY_CLUB ? SUIT(CLUBS) : CARD(TWO_OF_CLUBS));
    uint64_t cards = choose(env->num_played % NUM_SEATS, follows, choose(env->num_played, leads, opening));
    cards = choose(is_passing(env), hand, cards);
    return choose(cards != 0, cards, hand); /* who has nothing else may play anything */
}

FN void env_mask(const Env *env, const Tables *tables, int agent, uint8_t *mask) {
    (void)tables, (void)agent;
    const uint64_t legal = legal_cards(env);
    for (int k = 0; k < 7; k++) { /* the last eight overlap with those before */
        const int card = k < 6 ? 8 * k : NUM_CARDS - 8;
        const uint64_t bytes = spread_bits(legal >> card & 0xFF);
        memcpy(mask + card, &bytes, 8);
    }
}

FN void pass_card(Env *env, int card) {
    const int seat = env->seat;
    env->passed[seat] |= CARD(card);
    env->num_passed++;
    env->num_known[seat]++;
    list_cards(env->known[seat] + KNOWN_PASSED, CARDS_PASSED, AT_PASSED, env->passed[seat]);
    env->seat = (uint8_t)(env->num_passed / CARDS_PASSED);
    if (env->num_passed < ALL_PASSED) return;
    for (int giver = 0; giver < NUM_SEATS; giver++) env->hand[(giver + env->direction) & 3] |= env->passed[giver];
    begin_play(env);
}

FN void count_hand(Env *env) {
    for (int seat = 0; seat < NUM_SEATS; seat++) env->shot |= env->penalty[seat] == ALL_POINTS;
    for (int seat = 0; seat < NUM_SEATS; seat++)
        if (env->shot)
            env->points[seat] += (int8_t)(env->penalty[seat] == ALL_POINTS ? -ALL_POINTS : ALL_POINTS);
        else if (AVOID_ALL_TRICKS_BONUS && !(env->winners >> seat & 1))
            env->points[seat] += NO_TRICKS_POINTS;
}

FN void end_trick(Env *env) {
    const int winner = env->best_seat;
    env->points[winner] += env->trick_points;
    env->penalty[winner] += env->trick_penalty;
    env->winners |= (uint8_t)(1 << winner);
    env->trick_points = env->trick_penalty = 0;
    env->seat = (uint8_t)winner;
#if RELATIVE
    for (int seat = 0; seat < NUM_SEATS; seat++) env->table[seat] = NUM_CARDS;
#endif
    if (env->num_played == NUM_CARDS) count_hand(env);
}

FN void play_card(Env *env, int card) {
    const int seat = env->seat, turn = env->num_played % NUM_SEATS, trick = env->num_played / NUM_SEATS;
    if (!turn) env->leader = (uint8_t)seat;
#if RELATIVE
    env->played[seat] |= CARD(card);
    env->table[seat] = (uint8_t)card;
    if (turn && card % 4 != env->best_card % 4) env->voids[seat] |= (uint8_t)(1 << env->best_card % 4);
#endif
    const int best = (turn == 0) | ((card % 4 == env->best_card % 4) & (card > env->best_card));
    env->best_card = best ? (uint8_t)card : env->best_card;
    env->best_seat = best ? (uint8_t)seat : env->best_seat;
    const int penalty = (card % 4 == HEARTS) + QUEEN_POINTS * (card == QUEEN_OF_SPADES);
    env->trick_penalty += (int8_t)penalty;
    env->trick_points += (int8_t)(penalty + (JD_BONUS && card == JACK_OF_DIAMONDS ? JACK_POINTS : 0));
    env->broken |= card % 4 == HEARTS || (QS_BREAKS_HEARTS && card == QUEEN_OF_SPADES);
    env->history[env->num_played++] = (int16_t)(AT_TRICKS + (trick * PLACES + env->leader + turn) * NUM_CARDS + card);
    env->seat = (uint8_t)((seat + 1) & 3);
    if (turn == NUM_SEATS - 1) end_trick(env);
}

FN void set_moment(const Env *env, Moment *now) {
    now->hand = env->hand[env->seat];
    for (int seat = 0; seat < NUM_SEATS; seat++) now->points[seat] = env->points[seat];
    now->num_known = env->num_known[env->seat];
    now->num_played = env->num_played;
}

#if HISTORY > 1
/* The seat to move is about to: keep what it sees. */
FN void remember(Env *env) {
    Moment *past = env->past[env->seat];
    if (env->num_past[env->seat] < HISTORY - 1) {
        set_moment(env, past + env->num_past[env->seat]++);
        return;
    }
    for (int k = 0; k < HISTORY - 2; k++) past[k] = past[k + 1];
    set_moment(env, past + HISTORY - 2);
}
#endif

FN void env_step(Env *env, const Tables *tables, const Action *actions, Step *step) {
    (void)tables;
    const int card = (int)actions[0];
    if (!(env->hand[env->seat] >> card & 1)) return; /* the engine lets only legal cards through */
#if HISTORY > 1
    remember(env);
#endif
    env->hand[env->seat] ^= CARD(card);
    if (is_passing(env))
        pass_card(env, card);
    else
        play_card(env, card);
    if (env->num_played < NUM_CARDS) return;
    step->terminated[0] = 1;
    for (int seat = 0; seat < NUM_SEATS; seat++) step->reward[seat] = (float)(ALL_POINTS - env->points[seat]);
}

FN void env_metrics(const Env *env, int agent, float *metrics) {
    (void)agent;
    metrics[0] = env->shot;
    for (int seat = 0; seat < NUM_SEATS; seat++) metrics[1 + seat] = env->points[seat];
}

#include "observe.h"

FN void env_observe(const Env *env, const Tables *tables, int agent, Obs *obs) {
    (void)tables, (void)agent;
#if OBS_SIZE && !HISTORY && !RELATIVE
    for (int k = 0; k < OBS_LEN; k++) obs[k] = OBS_SIZE; /* what list_ones writes beyond the ones is padding too */
    obs[0] = (Obs)list_seen(env, obs + 1);
#elif OBS_SIZE
    const int count = list_seen(env, obs + 1);
    obs[0] = (Obs)count;
    for (int k = 1 + count; k < OBS_LEN; k++) obs[k] = OBS_SIZE;
#else
    int16_t ones[MOST_ONES + (HISTORY ? (HISTORY - 1) * MOST_ONES_AT_DECISION + 1 : 0)];
    const int count = list_seen(env, ones);
    for (int k = 0; k < OBS_LEN; k++) obs[k] = 0;
    for (int k = 0; k < count; k++) obs[ones[k]] = 1;
#endif
}
