/* SPDX-License-Identifier: Apache-2.0 */

/* The rules of a limiter without a store, by themselves: no line of Go is in it. A second
 * writing of the same rules finds what the first takes for granted.
 *
 * N instances each remember, for each tally, what they have counted; a token is a tally that
 * was handed out. Hostile clients show any token they were ever given, or none. One honest
 * client has an address of its own, asks any instance, and shows the token it was given last.
 * Instances restart. The clock of one steps forward by the skew allowed. Two windows pass.
 *
 *	spin -a -DN=3 -DL=2 rules.pml && cc -O2 -DSAFETY -o pan pan.c && ./pan -m1000000
 *
 * With Q each client has to prove first, there is no other, and a bought tally stays near home: the
 * instance that issued its challenge, for as long as it runs. Elsewhere an instance admits no more
 * than Q for it.
 *
 *	spin -a -DN=3 -DL=3 -DF=1 -DQ=1 rules.pml && cc -O2 -DSAFETY -o pan pan.c && ./pan -m1000000
 *
 * Each BREAK_... leaves one rule out: then an assertion must fail.
 */

#ifndef N
#define N 2		/* instances */
#endif
#ifndef L
#define L 2		/* quota of a window */
#endif
#ifndef C
#define C 1		/* restarts */
#endif
#ifndef F
#define F 0		/* own tallies of the hostile clients */
#endif
#ifndef STEPS
#define STEPS 0		/* clocks that step */
#endif

#define HONEST 0	/* the tally of the honest client */
#define SHARED 1	/* of the hostile clients' address */
#define TALLIES (2+F)	/* from 2 on: those that they have bought */
#define WINDOWS 3	/* a clock that is ahead reaches one more */
#define HALVES 2	/* of a window: where the clock can stand in it */

/* A tally: the window, what was used in the one before, and in it. The tally of a sliding window
 * weighs the one before by as much of it as still lies within the last window. */
typedef tally { byte w; byte p; byte c }
#ifdef SLIDING
#define ID(w, p, c) (((w)*(L+1) + (p))*(L+1) + (c))
#define TOKENS (WINDOWS*(L+1)*(L+1))
#define PREV(id) (((id)/(L+1)) % (L+1))
#define BEFORE(f, w) ((w) > 0 -> truth[(f)*WINDOWS+(w)-((w) > 0)] : 0)
#define WIN(id) ((id)/((L+1)*(L+1)))
#else
#define ID(w, p, c) ((w)*(L+1) + (c))
#define TOKENS (WINDOWS*(L+1))
#define PREV(id) 0
#define BEFORE(f, w) 0
#define WIN(id) ((id)/(L+1))
#endif
#define CUR(id) ((id) % (L+1))
#define ROOM_OF(l, p, c, e) ((p)*(HALVES-(e)) + ((c)+1)*HALVES <= (l)*HALVES)
#define ROOM(p, c, e) ROOM_OF(L, p, c, e)

tally memory[N*TALLIES];
int given[TALLIES];		/* a bit for each token that was handed out */
byte truth[TALLIES*WINDOWS];	/* what was admitted, as nobody knows */
byte jar;			/* the honest client's token */
byte half;			/* of the world's clock */
byte restarts, steps;
bool ahead[N];

#ifdef Q
tally away[N*F];		/* what an instance holds of a tally that is not at home there, in memory alone */
byte strange[N*F*WINDOWS];	/* what it truly admitted for it */
byte home[F];			/* the instance, from 1 on; 0: none, or it is gone */
byte issued;			/* challenges */
#define AWAY(i, f) ((i)*F+(f)-2)
#define STRANGE(i, f, w) strange[AWAY(i, f)*WINDOWS+(w)]
#ifdef SLIDING
#define STRANGE_BEFORE(i, f, w) ((w) > 0 -> STRANGE(i, f, (w)-((w) > 0)) : 0)
#else
#define STRANGE_BEFORE(i, f, w) 0
#endif
#define SOLD (SHARED+issued)	/* the last tally that can be shown */
#define MOST(f) (L + (N+restarts-1)*Q)
#define MOST_OF_ALL (L + (N+C-1)*Q)
#else
#define SOLD (TALLIES-1)
#define MOST(f) ((N+restarts)*L)
#define MOST_OF_ALL ((N+C)*L)
#endif

byte who, what, token;		/* which instance, tally and token the next request is about; 0 between requests */

/* Of one request, and nothing between two: hidden, so that it makes no states. */
hidden byte admitted;
hidden tally after, m, s;
hidden byte clock, e, top;
#ifdef Q
hidden tally apart;
hidden byte far, used_up;
hidden byte part;
#endif

#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define MIN(a, b) ((a) < (b) -> (a) : (b))

/* Brings a tally to a window that is not before its own. */
inline roll(x, to) {
	if
	:: x.w == to
	:: x.w < to ->
#if defined(BREAK_ROLL_FORGETS) || !defined(SLIDING)
		x.p = 0;
#else
		x.p = (x.w + 1 == to -> x.c : 0);
#endif
#ifndef BREAK_OLD_COUNTS_STAY
		x.c = 0;
#endif
		x.w = to
	fi
}

#ifdef Q
/* What an instance has counted of the share of a tally that is not at home there. A token says nothing
 * of it, and its window is that of the clock. */
inline share(i, f) {
#ifdef BREAK_HOME_WHERE_SHOWN
	if
	:: token == 0 -> home[f-2] = i+1
	:: else
	fi;
#endif
	far = home[f-2] != i+1;
	apart.w = away[AWAY(i, f)].w; apart.p = away[AWAY(i, f)].p; apart.c = away[AWAY(i, f)].c;
	roll(apart, clock);
#ifdef BREAK_SHARE_FROM_TOKEN
	apart.c = MAX(apart.c, CUR(token));
#endif
	part = (ahead[i] -> 0 : half % HALVES);
#ifdef BREAK_HOME_EVERYWHERE
	used_up = false
#else
	used_up = far && !ROOM_OF(Q, apart.p, apart.c, part)
#endif
}

/* A request that is admitted away from home is counted there, and here. */
inline charge_share(i, f) {
	if
	:: far ->
		STRANGE(i, f, clock)++;
#ifndef BREAK_HOME_EVERYWHERE
#ifndef BREAK_SHARE_NOT_TOLD
		/* An instance that is not the home admits no more than the share. */
		assert(STRANGE(i, f, clock) <= Q);
		away[AWAY(i, f)].w = apart.w; away[AWAY(i, f)].p = apart.p; away[AWAY(i, f)].c = apart.c + 1
#endif
#endif
	:: else
	fi
}
#endif

/* One request: instance i is shown a token of tally f. */
inline ask(i, f, token) {
	clock = (half + (ahead[i] && half % HALVES == HALVES-1 -> 1 : 0)) / HALVES;
	m.w = memory[i*TALLIES+f].w; m.p = memory[i*TALLIES+f].p; m.c = memory[i*TALLIES+f].c;
	s.w = WIN(token); s.p = PREV(token); s.c = CUR(token);
	top = MAX(clock, MAX(m.w, s.w));
	e = (ahead[i] || top > clock -> 0 : half % HALVES);
	roll(m, top);
	roll(s, top);
	after.w = top;
#if defined(BREAK_MERGE_MINIMUM)
	after.p = MIN(m.p, s.p); after.c = MIN(m.c, s.c);
#elif defined(BREAK_MEMORY_NOT_ASKED)
	after.p = s.p; after.c = s.c;
#elif defined(BREAK_LAST_TOKEN_WINS)
	after.p = (token == 0 -> m.p : s.p); after.c = (token == 0 -> m.c : s.c);
#elif defined(BREAK_TOKEN_NOT_ASKED)
	after.p = m.p; after.c = m.c;
#elif defined(BREAK_SUM)
	after.p = MIN(m.p + s.p, L); after.c = MIN(m.c + s.c, L);
#else
	after.p = MAX(m.p, s.p); after.c = MAX(m.c, s.c);
#endif
	/* What is merged is never more than the truth. */
	assert(after.c <= truth[f*WINDOWS+top] && after.p <= BEFORE(f, top));
#if defined(BREAK_ONE_MORE)
	admitted = after.c <= L;
#elif defined(BREAK_ONE_LESS)
	admitted = ROOM(after.p, after.c+1, e);
#elif defined(BREAK_PAST_WEIGHS_WHOLE)
	admitted = ROOM(after.p, after.c, 0);
#else
	admitted = ROOM(after.p, after.c, e);
#endif
#ifdef Q
	share(i, f);
	admitted = admitted && !used_up;
#endif
	if
	:: admitted ->
		/* The client that echoes gets no more than the quota, whatever instances it asks. */
		assert(f != HONEST || ROOM(BEFORE(f, top), truth[f*WINDOWS+top], e));
		after.c++;
		truth[f*WINDOWS+top]++;
		/* One instance admits no more than the quota, and all of them no more than the bound. */
		assert(after.c <= L);
		assert(truth[f*WINDOWS+top] <= MOST(f));
#ifdef BREAK_BOUND_OF_LESS
		assert(truth[f*WINDOWS+top] < MOST_OF_ALL);
#endif
#ifdef Q
		charge_share(i, f)
#endif
	:: else ->
		/* No client is refused that is under its limit, */
#ifndef Q
		assert(!ROOM(BEFORE(f, top), truth[f*WINDOWS+top], e));
#else
		/* but where it is away from home and had its share there. */
		assert(!ROOM(BEFORE(f, top), truth[f*WINDOWS+top], e) || far && !ROOM_OF(Q, STRANGE_BEFORE(i, f, clock), STRANGE(i, f, clock), part));
#endif
#ifdef BREAK_REFUSAL_CHARGES
		after.c = MIN(after.c + 1, L);
#endif
	fi;
#if defined(BREAK_MEMORY_NOT_TOLD)
	skip
#elif defined(BREAK_REFUSAL_CHARGES)
	memory[i*TALLIES+f].w = after.w; memory[i*TALLIES+f].p = after.p; memory[i*TALLIES+f].c = after.c
#else
	if
	:: admitted ->
		memory[i*TALLIES+f].w = after.w; memory[i*TALLIES+f].p = after.p; memory[i*TALLIES+f].c = after.c
	:: else
	fi
#endif
}

/* Some instance is asked, any of them. */
inline some_instance() {
	do
	:: who < N-1 -> who++
	:: break
	od
}

inline done() { who = 0; what = 0; token = 0 }

#ifndef Q
/* It shows the token that it was given last. A refusal brings one too, if it says more. */
active proctype honest() {
end:	do
	:: atomic {
		some_instance();
		d_step {
			token = jar;
			ask(who, HONEST, token);
			jar = ID(after.w, after.p, after.c);
			done()
		}
	   }
	od
}
#endif

/* All others behind one address: any of their tokens, or none. Own tallies come first, and the
 * shared one after them. The first token of an own tally says zero, as no token does. */
active proctype hostile() {
end:	do
	:: atomic {
#ifdef Q
		issued > 0;
		what = SHARED+1;
#else
		what = SHARED;
#endif
		some_instance();
		do
		:: what < SOLD -> what++
		:: break
		od;
		do
		:: token < TOKENS-1 -> token++
		:: token == 0 || (given[what] & (1 << token)) -> break
		:: token == TOKENS-1 && !(given[what] & (1 << token)) -> token = 0; break
		od;
		d_step {
			ask(who, what, token);
			given[what] = given[what] | (1 << ID(after.w, after.p, after.c));
#ifndef Q
			if
			:: !admitted && what > SHARED ->
				ask(who, SHARED, 0);
				given[SHARED] = given[SHARED] | (1 << ID(after.w, after.p, after.c))
			:: else
			fi;
#endif
			done()
		}
	   }
	od
}

/* What happens to the fleet. */
active proctype place() {
end:	do
	:: atomic { half < 2*HALVES-1 -> half++ }
	:: atomic {
		restarts < C ->
		restarts++;
		some_instance();
		d_step {
			what = 0;
			do
			:: what < TALLIES ->
				memory[who*TALLIES+what].w = 0; memory[who*TALLIES+what].p = 0; memory[who*TALLIES+what].c = 0;
#ifdef Q
				if
				:: what > SHARED ->
					away[AWAY(who, what)].w = 0; away[AWAY(who, what)].p = 0; away[AWAY(who, what)].c = 0;
					STRANGE(who, what, 0) = 0; STRANGE(who, what, 1) = 0; STRANGE(who, what, 2) = 0;
#ifndef BREAK_HOME_AFTER_RESTART
					home[what-2] = (home[what-2] == who+1 -> 0 : home[what-2])
#endif
				:: else
				fi;
#endif
				what++
			:: else -> break
			od;
			done()
		}
	   }
#ifdef Q
	:: atomic {
		issued < F ->
		some_instance();
		home[issued] = who+1;
		issued++;
		done()
	   }
#endif
	:: atomic {
		steps < STEPS ->
		steps++;
		some_instance();
		ahead[who] = true;
		done()
	   }
	od
}
