/* Worlds and steps (docs/internals/protocol-step.md), for exhaustive search with SPIN.
 *
 * An adversary may form any world at any time that the record allows, so suspicion, slow members of
 * old worlds, rescaling and the loss of leaders need no words of their own here. Workers die and
 * come back between any two actions. Each action below is one step: what it reads of others is one
 * record of the store, or what all members of a world have given to a collective.
 *
 * A step of training is BUCKETS collectives, any number of them under way at once: a member may
 * have contributed to all before the first is ok. It applies the step with the last ok. A member
 * that is one step behind is healed by the state of another, or by the sum that it lacks, which
 * sessions do not do.
 *
 * Without a carrier the next lineage begins with the newest of the complete states of its first
 * members and of the checkpoint: by the generation of its last step, then by its steps. A label does
 * not tell this, since a world that never becomes active renews it. A lineage may begin with an older
 * state than one that is elsewhere. So the record has with which state the last active lineage began,
 * and this one counts as one of it.
 *
 * A state is the list of its steps, each by the generation in which it was summed: three bits for
 * each, the first step lowest. Two sums of one step in one generation are the same.
 */

#ifndef WORKERS
#define WORKERS 3
#endif
#ifndef JOINERS
#define JOINERS 0       /* workers that are not in the first world */
#endif
#ifndef WORLDS
#define WORLDS 3
#endif
#ifndef STEPS
#define STEPS 2
#endif
#ifndef BUCKETS
#define BUCKETS 2
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef RETURNS
#define RETURNS 0       /* of workers that died */
#endif
#ifndef CHECKPOINTS
#define CHECKPOINTS 0
#endif
#ifndef BACKS
#define BACKS 0         /* times that all go back to the checkpoint, as a carrier is lost */
#endif
#ifndef FENCES
#define FENCES 0        /* lives that end while the worker keeps what it holds */
#endif
#ifndef STALLS
#define STALLS 0        /* times that a worker stands still for so long that its fence passes */
#endif
#ifndef HEAL_BY_SUM
#define HEAL_BY_SUM 0
#endif
#ifndef MUTANT
#define MUTANT 0
#endif

#define W_FIRST_BUCKET 1        /* a step is applied with the ok of its first bucket */
#define W_SUM_FOR_ANY 2         /* heals by a sum whoever is one step behind, in any generation */
#define W_LAST_APPLY 3          /* a label has the generation of the last step that was applied */
#define W_STEP_ALONE 4          /* a label is the number of steps */
#define W_LATEST_OVERLAP 5      /* a world needs a member of the latest record, not a carrier */
#define W_ACTIVE_EARLY 6        /* a world becomes active before all members have healed */
#define W_OK_BEFORE_ACTIVE 7    /* a result counts before its world is active */
#define W_SAME_INCARNATION 8    /* a carrier is an id, whichever life it has */
#define W_REPORT_EARLY 9        /* a label is told before the old world is left */
#define W_PUBLISH_TENTATIVE 10  /* a checkpoint of a step that only its writer has applied */
#define W_FOREIGN_CHECKPOINT 11 /* a checkpoint is published whatever the lineage is by now */
#define W_HEAL_IN_PLACE 12      /* a state is received over the old one, under the old label */
#define W_ANEW_BY_LEASE 13      /* the job begins anew when all carriers are suspected */
#define W_BACK_ALONE 14         /* those who go back have no carrier among them */
#define W_KEEPS_STATE 15        /* who goes back keeps what it holds */
#define W_VOIDS_LIVE_STATE 16   /* who begins a lineage voids what it holds */
#define W_OLDER_BASE 17         /* a lineage begins with the first state that a member holds */
#define W_TORN_BASE 18          /* as W_HEAL_IN_PLACE, where a lineage begins */
#define W_FENCED_BEATS_CARRIER 19       /* a fenced member's label has the present generation */
#define W_BEHIND_CHECKPOINT 20  /* a lineage begins with a member's state, whatever is published */
#define W_BASE_BY_LABEL 21      /* a lineage begins with the state that has the newest label */
#define W_FORGETS_BASE 22       /* the record does not have the state that its lineage began with */
#define W_RETURNS_UNASKED 23    /* a worker that stood still goes on, whatever the record says */

#define PLACES (WORKERS * WORLDS)
#define AT(g, w) (((g) - 1) * WORKERS + (w))
#define BIT(w) (1 << (w))
#define ALL (BIT(WORKERS) - 1)
#define STEP_OF(state, s) (((state) >> (3 * (s))) & 7)
#define PREFIX(state, s) ((state) & (BIT(3 * (s)) - 1))
#if WORLDS > 6 || STEPS > 4
#error "a step has 3 bits for its generation, of which 7 is a torn state, and a state has 4 steps"
#endif
#define TORN 7

#if BACKS && (FENCES || STALLS)
#error "who goes back keeps nothing, so a fenced member is one that died and returned"
#endif
/* Lineages begin with what members hold. Going back is consistent recovery: the checkpoint alone
 * begins a lineage there. */
#if !BACKS && (CRASHES || FENCES || STALLS || MUTANT == W_ANEW_BY_LEASE)
#define SALVAGE 1
#else
#define SALVAGE 0
#endif

/* The age of a state, in a byte: newer ones are greater. 0: there is none. It is the label. Where a
 * lineage begins it is: whether it counts as one of the last active lineage, the generation of its
 * last step, its steps. */
#define AGE(its_lineage, its_gen, its_step) \
	(((its_lineage) * (WORLDS + 1) + (its_gen)) * (STEPS + 1) + (its_step))
#define GEN_OF(age) ((age) / (STEPS + 1) % (WORLDS + 1))
#define STEPS_OF(age) ((age) % (STEPS + 1))
#define SAME_BUT_STEPS(a, b) ((a) / (STEPS + 1) == (b) / (STEPS + 1))

/* ---- The record in the store ---- */

byte gen = 1;
bool forming;
byte active_gen = 1;
byte lineage = 1;
byte active_lineage = 1;
byte carrier[WORKERS];          /* the incarnation of each carrier; 0: it is none */
byte checkpoint_steps;
short checkpoint;
#if SALVAGE
byte checkpoint_gen;            /* of the world in which it was published */
/* Of the last active lineage: its first active world, and of the state that this began with the
 * generation of the last step and the steps. */
byte lineage_gen = 1;
byte base_gen;
byte base_steps;
#define CHECKPOINT_AGE AGE(checkpoint_gen >= lineage_gen, checkpoint_gen, checkpoint_steps)
#endif

/* ---- What is written once in each world ---- */

byte lineage_of[WORLDS + 1];
byte members[WORLDS + 1];       /* as bits */
byte member[PLACES];            /* the incarnation of each; 0: it is none */
byte reported[WORLDS + 1];      /* as bits, as synced */
byte label[PLACES];             /* the age that a member reported; 0: it has no state */
byte synced[WORLDS + 1];
short base[PLACES];             /* the state with which a member began */
byte sums[PLACES];              /* buckets of all steps that it contributed to */
#if SALVAGE
byte anew;                      /* the worlds that begin a lineage, as bits */
#define BEGINS_ANEW(g) ((anew & BIT(g)) != 0)
#else
#define BEGINS_ANEW(g) false
#endif

/* ---- A worker ---- */

#define OUT 0
#define REPORTED 1
#define SYNCED 2
/* Its barrier is ok, after which a member goes on as soon as it likes. */
#define PASSED(w) (phase[w] == SYNCED && synced[world[w]] == members[world[w]])

byte incarnation[WORKERS];
bool alive[WORKERS];
byte phase[WORKERS];
byte world[WORKERS];            /* that it takes part in */
byte own_lineage[WORKERS];      /* with own_gen and own_step its label */
byte own_gen[WORKERS];          /* 0: it has no state */
byte own_step[WORKERS];
short state[WORKERS];
#if SALVAGE
byte own_last[WORKERS];         /* the generation of its last step */
#endif
byte base_step[WORKERS];
bool is_active[WORKERS];        /* it has read so */
#define OWN_AGE(w) (own_gen[w] == 0 -> 0 : AGE(own_lineage[w], own_gen[w], own_step[w]))

#if STALLS
byte away[WORKERS];             /* the newest generation when it began to stand still; 0: it acts */
byte stalls;
#define ACTS(w) (alive[w] && away[w] == 0)
#else
#define ACTS(w) (alive[w])
#endif
byte crashes;
byte returns;
byte fences;
byte checkpoints;

/* ---- What nobody in the job knows ---- */

byte stable[STEPS];             /* the generation of each stable step */
byte applied[WORLDS * STEPS];     /* by whom, as bits */
byte given_up;                  /* the last active generation of a lineage without carriers left */
#if SALVAGE
/* By those who entered the last world, if it begins a lineage: */
byte newest_held;
byte stable_held;               /* as many of the stable steps of the last active lineage */
#endif
#if BACKS
byte backs;
byte back_gen;                  /* the last active generation of the lineage that was gone back from */
byte settled_step;              /* the last step that one of its members had when it settled */
#endif

hidden byte age;                /* within one action */

/* All worlds in which nobody is any more look alike. */
inline forget(g) {
	if
	:: g > 0 && g < gen ->
		k = 0; seen = 0;
		do
		:: k < WORKERS -> seen = seen | (alive[k] && world[k] == g); k++
		:: else -> break
		od;
		if
		:: !seen ->
			k = 0;
			do
			:: k < WORKERS ->
				member[AT(g, k)] = 0; label[AT(g, k)] = 0; base[AT(g, k)] = 0;
				sums[AT(g, k)] = 0; k++
			:: else -> break
			od;
			k = 0;
			do
			:: k < STEPS -> applied[(g - 1) * STEPS + k] = 0; k++
			:: else -> break
			od;
#if SALVAGE
			anew = anew & ~BIT(g);
#endif
			members[g] = 0; reported[g] = 0; synced[g] = 0; lineage_of[g] = 0
		:: else
		fi
	:: else
	fi
}

/* Of the labels that members of world g reported: `best`, who has the highest, and of these the
 * lowest rank. Where a lineage begins a newer checkpoint is the base, or the initial state if there
 * is neither: then `best` is WORKERS. `age` is the base's. */
inline find_base(g) {
	best = WORKERS; k = 0;
	do
	:: k < WORKERS ->
		if
		:: label[AT(g, k)] == 0
		:: label[AT(g, k)] != 0 && best == WORKERS -> best = k
		:: label[AT(g, k)] != 0 && best != WORKERS ->
			if
			:: MUTANT != W_STEP_ALONE && !(MUTANT == W_OLDER_BASE && BEGINS_ANEW(g)) &&
				label[AT(g, k)] > label[AT(g, best)] -> best = k
			:: MUTANT == W_STEP_ALONE &&
				STEPS_OF(label[AT(g, k)]) > STEPS_OF(label[AT(g, best)]) -> best = k
			:: else
			fi
		fi;
		k++
	:: else -> break
	od;
	age = 0;
	if
	:: best < WORKERS -> age = label[AT(g, best)]
	:: else
	fi;
#if SALVAGE
	if
	:: BEGINS_ANEW(g) && checkpoint_gen != 0 && CHECKPOINT_AGE > age &&
		(best == WORKERS || MUTANT != W_BEHIND_CHECKPOINT) -> best = WORKERS; age = CHECKPOINT_AGE
	:: else
	fi
#endif
}

#if SALVAGE
/* `age` is that of its state where a lineage begins. The initial state has none. */
inline find_age(w) {
	assert(MUTANT != 0 || own_last[w] <= active_gen);
	age = (own_last[w] == 0 -> 0 : AGE(own_last[w] >= lineage_gen ||
		(own_last[w] == base_gen && own_step[w] >= base_steps), own_last[w], own_step[w]))
}
#endif

/* World g becomes active with these states: I6, I8, I9. All of its members hold their steps, which
 * are stable by that. */
inline check_base(g) {
	k = 0; seen = WORKERS;
	do
	:: k < WORKERS ->
		if
		:: member[AT(g, k)] != 0 && (synced[g] & BIT(k)) ->
			assert(seen == WORKERS || base[AT(g, k)] == base[AT(g, seen)]);
			seen = k
		:: else
		fi;
		k++
	:: else -> break
	od;
	k = 0;
	do
	:: k < STEPS ->
		assert(seen == WORKERS || stable[k] == 0 || STEP_OF(base[AT(g, seen)], k) == stable[k]);
		if
		:: seen != WORKERS -> stable[k] = STEP_OF(base[AT(g, seen)], k)
		:: else
		fi;
		k++
	:: else -> break
	od;
	assert(seen == WORKERS ||
		PREFIX(base[AT(g, seen)], checkpoint_steps) == checkpoint)
}

/* Whether all members of its world gave to so many collectives of the step after own_step. */
inline all_gave(w, buckets) {
	k = 0; seen = 1;
	do
	:: k < WORKERS ->
		seen = seen && (!(members[world[w]] & BIT(k)) ||
			sums[AT(world[w], k)] >= BUCKETS * (own_step[w] - base_step[w]) + buckets);
		k++
	:: else -> break
	od
}

/* The step after own_step, of its world. By that own_step is stable. It may not be so once a later
 * lineage is active (I11), unless those had it who settled: they gave to the step after it. */
inline apply(w) {
	assert(world[w] != given_up);   /* I11 */
#if BACKS
	assert(world[w] != back_gen || lineage_of[world[w]] == active_lineage ||
		own_step[w] <= settled_step);
#endif
	k = 0;
	do
	:: k < WORKERS ->
		/* I6; and what is applied is whole */
		assert(!(members[world[w]] & BIT(k)) || base[AT(world[w], k)] == base[AT(world[w], w)]);
		assert(!(members[world[w]] & BIT(k)) ||
			sums[AT(world[w], k)] >= BUCKETS * (own_step[w] - base_step[w] + 1));
		k++
	:: else -> break
	od;
	state[w] = state[w] | (world[w] << (3 * own_step[w]));
	k = (world[w] - 1) * STEPS + own_step[w];
	applied[k] = applied[k] | BIT(w);
	if
	:: applied[k] == members[world[w]] && lineage_of[world[w]] == lineage ->
		assert(stable[own_step[w]] == 0 || stable[own_step[w]] == world[w]);  /* I3 */
		stable[own_step[w]] = world[w]
	:: else
	fi;
	own_step[w]++;
#if SALVAGE
	own_last[w] = world[w];
#endif
	if
	:: MUTANT == W_LAST_APPLY -> own_gen[w] = world[w]
	:: else
	fi
}

/* Leaves its old world, whose collectives give it nothing from here on, and tells its label. */
inline enter(w) {
	old = world[w]; world[w] = gen; phase[w] = REPORTED; is_active[w] = false; age = 0;
#if BACKS
	if
	:: lineage_of[gen] != own_lineage[w] && lineage_of[gen] > 1 &&
		(MUTANT != W_KEEPS_STATE || own_gen[w] == 0) ->
		if
		:: carrier[w] == incarnation[w] && lineage_of[gen] != active_lineage &&
			own_step[w] > settled_step -> settled_step = own_step[w]
		:: else
		fi;
		own_lineage[w] = lineage_of[gen];
		own_gen[w] = 1; own_step[w] = checkpoint_steps; state[w] = checkpoint
	:: else -> own_lineage[w] = lineage_of[gen]
	fi;
	age = OWN_AGE(w);
#else
	if
#if SALVAGE
	:: BEGINS_ANEW(gen) ->
		find_age(w); k = 0;
		do
		:: k < own_step[w] && stable[k] != 0 && STEP_OF(state[w], k) == stable[k] -> k++
		:: else -> break
		od;
		newest_held = (age > newest_held -> age : newest_held);
		stable_held = (k > stable_held -> k : stable_held);
		if
		:: MUTANT == W_VOIDS_LIVE_STATE -> age = 0
		:: MUTANT == W_BASE_BY_LABEL -> age = OWN_AGE(w)
		:: else
		fi
#endif
	:: else ->
		if
		:: MUTANT == W_FENCED_BEATS_CARRIER && old == 0 && own_gen[w] != 0 ->
			age = AGE(lineage_of[gen], gen, own_step[w])
		:: else -> age = (own_lineage[w] == lineage_of[gen] -> OWN_AGE(w) : 0)
		fi
	fi;
#endif
	if
	:: !(reported[gen] & BIT(w)) ->
		label[AT(gen, w)] = age; reported[gen] = reported[gen] | BIT(w)
	:: else /* W_REPORT_EARLY */
	fi;
	forget(old); old = 0; k = 0; seen = 0
}

#define TOLD(w) label[AT(world[w], w)]
#define RECEIVES_IN_PLACE(w) (MUTANT == W_HEAL_IN_PLACE || \
	(MUTANT == W_TORN_BASE && BEGINS_ANEW(world[w])))

/* All have reported: its state is the base's from here on, whole. */
inline sync(w) {
	find_base(world[w]);
	assert(best < WORKERS || BEGINS_ANEW(world[w]));
	seen = best < WORKERS && (TOLD(w) == age ||
		(MUTANT == W_STEP_ALONE && TOLD(w) != 0 && STEPS_OF(TOLD(w)) == STEPS_OF(age)));
	if
	:: seen -> assert(STEP_OF(state[w], 0) != TORN)
	:: best == WORKERS -> state[w] = checkpoint; own_step[w] = checkpoint_steps
	:: best < WORKERS && !seen && HEAL_BY_SUM && TOLD(w) != 0 &&
		(SAME_BUT_STEPS(TOLD(w), age) || MUTANT == W_SUM_FOR_ANY) &&
		STEPS_OF(TOLD(w)) + 1 == STEPS_OF(age) && world[best] == world[w] && alive[best] ->
		state[w] = state[w] | (STEP_OF(state[best], own_step[w]) << (3 * own_step[w]));
		own_step[w]++;
		assert(state[w] == state[best])
	:: best < WORKERS && !seen && world[best] == world[w] && alive[best] &&
		RECEIVES_IN_PLACE(w) && STEP_OF(state[w], 0) != TORN -> state[w] = TORN
	:: best < WORKERS && !seen && world[best] == world[w] && alive[best] &&
		(!RECEIVES_IN_PLACE(w) || STEP_OF(state[w], 0) == TORN) ->
		state[w] = state[best]; own_step[w] = own_step[best]
	fi;
	if
	:: seen || (own_step[w] == STEPS_OF(age) && state[w] != TORN) ->
#if !BACKS
		own_lineage[w] = lineage_of[world[w]];
#endif
#if SALVAGE
		if
		:: seen
		:: !seen && best < WORKERS -> own_last[w] = own_last[best]
		:: else -> own_last[w] = checkpoint_gen
		fi;
#endif
		if
		:: MUTANT != W_LAST_APPLY -> own_gen[w] = world[w]
		:: else -> own_gen[w] = GEN_OF(age)
		fi;
		phase[w] = SYNCED; base_step[w] = own_step[w]; base[AT(world[w], w)] = state[w];
		synced[world[w]] = synced[world[w]] | BIT(w)
	:: else
	fi;
	k = 0; seen = 0; best = 0
}

#define SOURCE_IS_THERE(w) (reported[world[w]] == members[world[w]])

#if SALVAGE
/* I11: a lineage begins with the newest complete state. A step that was stable in the last active
 * lineage is forgotten if no member held it. */
inline check_beginning(w) {
	find_age(w);
	assert(MUTANT == W_BASE_BY_LABEL ||
		(age >= newest_held && (checkpoint_gen == 0 || age >= CHECKPOINT_AGE)));
	k = (stable_held > checkpoint_steps -> stable_held : checkpoint_steps);
	do
	:: k < STEPS -> stable[k] = 0; k++
	:: else -> break
	od;
	newest_held = 0; stable_held = 0
}
#endif

inline activate(w) {
#if BACKS
	/* I11: a lineage begins with the newest checkpoint. */
	assert(lineage_of[world[w]] == active_lineage ||
		(base[AT(world[w], w)] == checkpoint && base_step[w] == checkpoint_steps));
#elif SALVAGE
	if
	:: BEGINS_ANEW(world[w]) ->
		check_beginning(w); lineage_gen = world[w];
		base_gen = (MUTANT == W_FORGETS_BASE -> 0 : own_last[w]); base_steps = own_step[w]
	:: else
	fi;
#endif
	forming = false; active_gen = world[w]; active_lineage = lineage_of[world[w]];
	k = 0;
	do
	:: k < WORKERS -> carrier[k] = member[AT(world[w], k)]; k++
	:: else -> break
	od;
	check_base(world[w]);
	k = 0; seen = 0
}

/* Its life is over: nothing more comes of it. */
inline end_life(w) {
	old = world[w]; phase[w] = OUT; world[w] = 0; base_step[w] = 0; is_active[w] = false;
	forget(old); old = 0; k = 0; seen = 0
}

active [WORKERS] proctype worker() {
	byte w = _pid;
	byte k, seen, best, old;
end:
	do
	:: d_step { ACTS(w) && gen > world[w] && member[AT(gen, w)] == incarnation[w] -> enter(w) }
#if MUTANT == W_REPORT_EARLY
	:: d_step { ACTS(w) && gen > world[w] && member[AT(gen, w)] == incarnation[w] &&
		!(reported[gen] & BIT(w)) && own_gen[w] != 0 && lineage_of[gen] == own_lineage[w] ->
		label[AT(gen, w)] = OWN_AGE(w); reported[gen] = reported[gen] | BIT(w) }
#endif
	/* Its source may be gone: then nothing comes of this world. */
	:: atomic { ACTS(w) && phase[w] == REPORTED && SOURCE_IS_THERE(w) ->
		d_step { find_base(world[w]); seen = best == w || best == WORKERS || TOLD(w) == age ||
			(best < WORKERS && alive[best] && world[best] == world[w]);
			k = 0; best = 0 }
		if
		:: seen -> d_step { sync(w) }
		:: else -> seen = 0
		fi }
	:: d_step { ACTS(w) && (PASSED(w) || (MUTANT == W_ACTIVE_EARLY && phase[w] == SYNCED)) &&
		gen == world[w] && forming -> activate(w) }
	:: d_step { ACTS(w) && PASSED(w) && !is_active[w] && active_gen == world[w] ->
		is_active[w] = true }
	:: d_step { ACTS(w) && phase[w] == SYNCED && own_step[w] < STEPS &&
		sums[AT(world[w], w)] < BUCKETS * (own_step[w] - base_step[w] + 1) ->
		assert(world[w] != given_up);   /* I11 */
		sums[AT(world[w], w)]++ }
	/* All collectives of the step are ok. What this member has of them before the last one is seen by
	 * nobody, so it is no step of its own. */
	:: d_step { ACTS(w) && PASSED(w) && (is_active[w] || MUTANT == W_OK_BEFORE_ACTIVE) &&
		own_step[w] < STEPS && sums[AT(world[w], w)] > BUCKETS * (own_step[w] - base_step[w]) ->
		all_gave(w, (MUTANT == W_FIRST_BUCKET -> 1 : BUCKETS));
		if
		:: seen -> apply(w)
		:: else
		fi;
		k = 0; seen = 0 }
#if CHECKPOINTS
	/* The ok of a collective of this step says that all members have the step before. */
	:: d_step { ACTS(w) && PASSED(w) && is_active[w] && checkpoints < CHECKPOINTS &&
		own_step[w] > checkpoint_steps && (own_lineage[w] == lineage || MUTANT == W_FOREIGN_CHECKPOINT) ->
		all_gave(w, 1);
		if
		:: seen || MUTANT == W_PUBLISH_TENTATIVE ->
			checkpoint = state[w]; checkpoint_steps = own_step[w]; checkpoints++;
#if SALVAGE
			checkpoint_gen = own_gen[w]
#endif
		:: else
		fi;
		k = 0; seen = 0 }
#endif
#if CRASHES
	:: d_step { alive[w] && crashes < CRASHES ->
		crashes++; alive[w] = false; own_lineage[w] = 0; own_gen[w] = 0; own_step[w] = 0; state[w] = 0;
#if SALVAGE
		own_last[w] = 0;
#endif
#if STALLS
		away[w] = 0;
#endif
		end_life(w) }
#endif
#if STALLS
	/* Its thread stops between any two actions, and it is held to be fenced. It asks before it acts
	 * again: it goes on if its state counts, or if no world was formed meanwhile. */
	:: d_step { ACTS(w) && stalls < STALLS -> stalls++; away[w] = gen }
	:: d_step { alive[w] && away[w] != 0 && (carrier[w] == incarnation[w] || gen == away[w] ||
		MUTANT == W_RETURNS_UNASKED) -> away[w] = 0 }
	:: d_step { alive[w] && away[w] != 0 -> away[w] = 0; incarnation[w]++; end_life(w) }
#endif
#if FENCES
	:: d_step { ACTS(w) && world[w] != 0 && fences < FENCES ->
		fences++; incarnation[w]++; end_life(w) }
#endif
#if RETURNS
	:: d_step { !alive[w] && returns < RETURNS -> returns++; incarnation[w]++; alive[w] = true }
#endif
	od
}

/* The lineage that follows this one. Where all go back, what is stable is so by the checkpoint. */
inline begin_lineage() {
	lineage++;
#if BACKS
	k = checkpoint_steps;
	do
	:: k < STEPS -> stable[k] = 0; k++
	:: else -> break
	od
#endif
}

/* The world after this one, of those who were chosen. */
inline form() {
	old = gen; gen++; forming = true;
	lineage_of[gen] = lineage; members[gen] = chosen; k = 0;
	do
	:: k < WORKERS -> member[AT(gen, k)] = ((chosen & BIT(k)) -> incarnation[k] : 0); k++
	:: else -> break
	od;
#if SALVAGE
	newest_held = 0; stable_held = 0;
	if
	:: overlap == 0 -> anew = anew | BIT(gen)
	:: else
	fi;
#endif
	forget(old)
}

/* The leader, whoever it is: it forms worlds of those it holds to be alive, as long as one of them
 * is a carrier. Where the lives of all carriers are over a lineage begins, and as long as no world
 * of it is active it does so again with the next one. Where a carrier is lost all may go back to
 * the checkpoint, with another carrier among them. */
active proctype leader() {
	byte k, chosen, overlap, living, lost, old, seen;
	atomic {
		k = 0;
		do
		:: k < WORKERS - JOINERS ->
			incarnation[k] = 1; alive[k] = true; carrier[k] = 1; member[AT(1, k)] = 1;
			members[1] = members[1] | BIT(k); own_lineage[k] = 1; own_gen[k] = 1; world[k] = 1;
			phase[k] = SYNCED; is_active[k] = true; k++
		:: k >= WORKERS - JOINERS && k < WORKERS -> incarnation[k] = 1; alive[k] = true; k++
		:: k == WORKERS -> break
		od;
		reported[1] = members[1]; synced[1] = members[1]; lineage_of[1] = 1; k = 0
	}
end:
	do
	:: atomic { gen < WORLDS ->
		chosen = 0; k = 0;
		do
		:: k < WORKERS && alive[k] -> chosen = chosen | BIT(k); k++
		:: k < WORKERS -> k++
		:: else -> break
		od;
		k = 0;
		d_step {
			overlap = 0; living = 0; lost = 0;
			do
			:: k < WORKERS ->
				if
				:: carrier[k] != 0 && (carrier[k] == incarnation[k] || MUTANT == W_SAME_INCARNATION) ->
					living = living | (ACTS(k) << k);
					overlap = overlap | (chosen & BIT(k))
				:: else
				fi;
				if
				:: carrier[k] != 0 && !(overlap & BIT(k)) -> lost = 1
				:: else
				fi;
				if
				:: MUTANT == W_LATEST_OVERLAP && member[AT(gen, k)] == incarnation[k] ->
					overlap = overlap | (chosen & BIT(k))
				:: else
				fi;
				k++
			:: else -> break
			od
		}
		if
		:: chosen != 0 && (overlap != 0 || living == 0 || MUTANT == W_ANEW_BY_LEASE) ->
			d_step {
				if
				:: overlap == 0 ->
					if
					:: !SALVAGE || lineage == active_lineage -> begin_lineage()
					:: else
					fi;
					given_up = active_gen; k = 0;
					do
					:: k < WORKERS -> carrier[k] = 0; k++
					:: else -> break
					od
				:: else
				fi;
				form()
			}
#if BACKS
		/* The carriers stay as they were until the world is active, and while it forms a further
		 * loss changes its members alone. */
		:: chosen != 0 && lost && backs < BACKS && lineage == active_lineage &&
			(overlap != 0 || MUTANT == W_BACK_ALONE) ->
			d_step {
				backs++; back_gen = active_gen; settled_step = 0; begin_lineage(); form()
			}
#endif
		:: else
		fi;
		d_step { k = 0; chosen = 0; overlap = 0; living = 0; lost = 0; old = 0; seen = 0 } }
	od
}
