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

#define PLACES (WORKERS * (WORLDS + 1))
#define AT(g, w) ((g) * WORKERS + (w))
#define BIT(w) (1 << (w))
#define ALL (BIT(WORKERS) - 1)
#define STEP_OF(state, s) (((state) >> (3 * (s))) & 7)
#define PREFIX(state, s) ((state) & (BIT(3 * (s)) - 1))
#if WORLDS > 6 || STEPS > 4
#error "a step has 3 bits for its generation, of which 7 is a torn state, and a state has 4 steps"
#endif
#define TORN 7

/* ---- The record in the store ---- */

byte gen = 1;
bool forming;
byte active_gen = 1;
byte lineage = 1;
#if BACKS
byte active_lineage = 1;
#endif
byte carrier[WORKERS];          /* the incarnation of each carrier; 0: it is none */
byte checkpoint_steps;
short checkpoint;

/* ---- What is written once in each world ---- */

byte lineage_of[WORLDS + 1];
byte members[WORLDS + 1];       /* as bits */
byte member[PLACES];            /* the incarnation of each; 0: it is none */
byte reported[WORLDS + 1];      /* as bits, as synced */
byte label_gen[PLACES];         /* the label that a member reported; 0: it has no state */
byte label_step[PLACES];
byte synced[WORLDS + 1];
short base[PLACES];             /* the state with which a member began */
byte sums[PLACES];              /* buckets of all steps that it contributed to */

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
byte own_lineage[WORKERS];
byte own_gen[WORKERS];          /* its label, with own_step; 0: it has no state */
byte own_step[WORKERS];
short state[WORKERS];
byte base_step[WORKERS];
bool is_active[WORKERS];        /* it has read so */

byte crashes;
byte returns;
byte checkpoints;

/* ---- What nobody in the job knows ---- */

byte stable[STEPS];             /* the generation of each stable step */
byte applied[(WORLDS + 1) * STEPS];     /* by whom, as bits */
byte given_up;                  /* the last active generation of a lineage without carriers left */
#if BACKS
byte backs;
byte back_gen;                  /* the last active generation of the lineage that was gone back from */
byte settled_step;              /* the last step that one of its members had when it settled */
#endif

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
				member[AT(g, k)] = 0; label_gen[AT(g, k)] = 0; label_step[AT(g, k)] = 0;
				base[AT(g, k)] = 0; sums[AT(g, k)] = 0; k++
			:: else -> break
			od;
			k = 0;
			do
			:: k < STEPS -> applied[g * STEPS + k] = 0; k++
			:: else -> break
			od;
			members[g] = 0; reported[g] = 0; synced[g] = 0; lineage_of[g] = 0
		:: else
		fi
	:: else
	fi
}

/* Of the labels that members of world g reported: `best`, who has the highest, and of these the
 * lowest rank. Nobody has one: WORKERS. */
inline find_base(g) {
	best = WORKERS; k = 0;
	do
	:: k < WORKERS ->
		if
		:: label_gen[AT(g, k)] == 0
		:: label_gen[AT(g, k)] != 0 && best == WORKERS -> best = k
		:: label_gen[AT(g, k)] != 0 && best != WORKERS ->
			if
			:: MUTANT != W_STEP_ALONE && (label_gen[AT(g, k)] > label_gen[AT(g, best)] ||
				(label_gen[AT(g, k)] == label_gen[AT(g, best)] &&
				label_step[AT(g, k)] > label_step[AT(g, best)])) -> best = k
			:: MUTANT == W_STEP_ALONE && label_step[AT(g, k)] > label_step[AT(g, best)] -> best = k
			:: else
			fi
		fi;
		k++
	:: else -> break
	od
}

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
	k = world[w] * STEPS + own_step[w];
	applied[k] = applied[k] | BIT(w);
	if
	:: applied[k] == members[world[w]] && lineage_of[world[w]] == lineage ->
		assert(stable[own_step[w]] == 0 || stable[own_step[w]] == world[w]);  /* I3 */
		stable[own_step[w]] = world[w]
	:: else
	fi;
	own_step[w]++;
	if
	:: MUTANT == W_LAST_APPLY -> own_gen[w] = world[w]
	:: else
	fi
}

/* Leaves its old world, whose collectives give it nothing from here on, and tells its label. */
inline enter(w) {
	old = world[w]; world[w] = gen; phase[w] = REPORTED; is_active[w] = false;
	if
	:: lineage_of[gen] != own_lineage[w] && lineage_of[gen] > 1 &&
		(MUTANT != W_KEEPS_STATE || own_gen[w] == 0) ->
#if BACKS
		if
		:: carrier[w] == incarnation[w] && lineage_of[gen] != active_lineage &&
			own_step[w] > settled_step -> settled_step = own_step[w]
		:: else
		fi;
#endif
		own_lineage[w] = lineage_of[gen];
		own_gen[w] = 1; own_step[w] = checkpoint_steps; state[w] = checkpoint
	:: else -> own_lineage[w] = lineage_of[gen]
	fi;
	if
	:: !(reported[gen] & BIT(w)) ->
		label_gen[AT(gen, w)] = own_gen[w]; label_step[AT(gen, w)] = own_step[w];
		reported[gen] = reported[gen] | BIT(w)
	:: else /* W_REPORT_EARLY */
	fi;
	forget(old); old = 0; k = 0; seen = 0
}

/* All have reported: its state is the base's from here on, whole. */
inline sync(w) {
	find_base(world[w]);
	assert(best != WORKERS);
	if
	:: own_step[w] == label_step[AT(world[w], best)] && (own_gen[w] == label_gen[AT(world[w], best)] ||
		(MUTANT == W_STEP_ALONE && own_gen[w] != 0)) -> seen = 1
	:: else -> seen = 0
	fi;
	if
	:: seen -> assert(STEP_OF(state[w], 0) != TORN)
	:: !seen && HEAL_BY_SUM && own_gen[w] != 0 &&
		(own_gen[w] == label_gen[AT(world[w], best)] || MUTANT == W_SUM_FOR_ANY) &&
		own_step[w] + 1 == label_step[AT(world[w], best)] && world[best] == world[w] && alive[best] ->
		state[w] = state[w] | (STEP_OF(state[best], own_step[w]) << (3 * own_step[w]));
		own_step[w]++;
		assert(state[w] == state[best])
	:: !seen && world[best] == world[w] && alive[best] && MUTANT == W_HEAL_IN_PLACE &&
		STEP_OF(state[w], 0) != TORN -> state[w] = TORN
	:: !seen && world[best] == world[w] && alive[best] &&
		(MUTANT != W_HEAL_IN_PLACE || STEP_OF(state[w], 0) == TORN) ->
		state[w] = state[best]; own_step[w] = own_step[best]
	fi;
	if
	:: seen || own_step[w] == label_step[AT(world[w], best)] && state[w] != TORN ->
		if
		:: MUTANT != W_LAST_APPLY -> own_gen[w] = world[w]
		:: else -> own_gen[w] = label_gen[AT(world[w], best)]
		fi;
		phase[w] = SYNCED; base_step[w] = own_step[w]; base[AT(world[w], w)] = state[w];
		synced[world[w]] = synced[world[w]] | BIT(w)
	:: else
	fi;
	k = 0; seen = 0; best = 0
}

#define SOURCE_IS_THERE(w) (reported[world[w]] == members[world[w]])

inline activate(w) {
	forming = false; active_gen = world[w];
#if BACKS
	/* I11: a lineage begins with the newest checkpoint. */
	assert(lineage_of[world[w]] == active_lineage ||
		(base[AT(world[w], w)] == checkpoint && base_step[w] == checkpoint_steps));
	active_lineage = lineage_of[world[w]];
#endif
	k = 0;
	do
	:: k < WORKERS -> carrier[k] = member[AT(world[w], k)]; k++
	:: else -> break
	od;
	check_base(world[w]);
	k = 0; seen = 0
}

active [WORKERS] proctype worker() {
	byte w = _pid;
	byte k, seen, best, old;
end:
	do
	:: d_step { alive[w] && gen > world[w] && member[AT(gen, w)] == incarnation[w] -> enter(w) }
#if MUTANT == W_REPORT_EARLY
	:: d_step { alive[w] && gen > world[w] && member[AT(gen, w)] == incarnation[w] &&
		!(reported[gen] & BIT(w)) && own_gen[w] != 0 && lineage_of[gen] == own_lineage[w] ->
		label_gen[AT(gen, w)] = own_gen[w]; label_step[AT(gen, w)] = own_step[w];
		reported[gen] = reported[gen] | BIT(w) }
#endif
	/* Its source may be gone: then nothing comes of this world. */
	:: atomic { alive[w] && phase[w] == REPORTED && SOURCE_IS_THERE(w) ->
		d_step { find_base(world[w]); seen = best == w || (best < WORKERS && alive[best] &&
			world[best] == world[w]) ||
			(best < WORKERS && own_gen[w] == label_gen[AT(world[w], best)] &&
			own_step[w] == label_step[AT(world[w], best)]); k = 0; best = 0 }
		if
		:: seen -> d_step { sync(w) }
		:: else -> seen = 0
		fi }
	:: d_step { alive[w] && (PASSED(w) || (MUTANT == W_ACTIVE_EARLY && phase[w] == SYNCED)) &&
		gen == world[w] && forming -> activate(w) }
	:: d_step { alive[w] && PASSED(w) && !is_active[w] && active_gen == world[w] ->
		is_active[w] = true }
	:: d_step { alive[w] && phase[w] == SYNCED && own_step[w] < STEPS &&
		sums[AT(world[w], w)] < BUCKETS * (own_step[w] - base_step[w] + 1) ->
		assert(world[w] != given_up);   /* I11 */
		sums[AT(world[w], w)]++ }
	/* All collectives of the step are ok. What this member has of them before the last one is seen by
	 * nobody, so it is no step of its own. */
	:: d_step { alive[w] && PASSED(w) && (is_active[w] || MUTANT == W_OK_BEFORE_ACTIVE) &&
		own_step[w] < STEPS && sums[AT(world[w], w)] > BUCKETS * (own_step[w] - base_step[w]) ->
		all_gave(w, (MUTANT == W_FIRST_BUCKET -> 1 : BUCKETS));
		if
		:: seen -> apply(w)
		:: else
		fi;
		k = 0; seen = 0 }
#if CHECKPOINTS
	/* The ok of a collective of this step says that all members have the step before. */
	:: d_step { alive[w] && PASSED(w) && is_active[w] && checkpoints < CHECKPOINTS &&
		own_step[w] > checkpoint_steps && (own_lineage[w] == lineage || MUTANT == W_FOREIGN_CHECKPOINT) ->
		all_gave(w, 1);
		if
		:: seen || MUTANT == W_PUBLISH_TENTATIVE ->
			checkpoint = state[w]; checkpoint_steps = own_step[w]; checkpoints++
		:: else
		fi;
		k = 0; seen = 0 }
#endif
#if CRASHES
	:: d_step { alive[w] && crashes < CRASHES ->
		crashes++; alive[w] = false; old = world[w]; phase[w] = OUT; world[w] = 0; own_lineage[w] = 0;
		own_gen[w] = 0; own_step[w] = 0; state[w] = 0; base_step[w] = 0;
		is_active[w] = false;
		forget(old); old = 0; k = 0; seen = 0 }
#endif
#if RETURNS
	:: d_step { !alive[w] && returns < RETURNS -> returns++; incarnation[w]++; alive[w] = true }
#endif
	od
}

/* The lineage that follows this one, from the newest checkpoint. */
inline begin_lineage() {
	lineage++;
	k = checkpoint_steps;
	do
	:: k < STEPS -> stable[k] = 0; k++
	:: else -> break
	od
}

/* The world after this one, of those who were chosen. */
inline form() {
	old = gen; gen++; forming = true;
	lineage_of[gen] = lineage; members[gen] = chosen; k = 0;
	do
	:: k < WORKERS -> member[AT(gen, k)] = ((chosen & BIT(k)) -> incarnation[k] : 0); k++
	:: else -> break
	od;
	forget(old)
}

/* The leader, whoever it is: it forms worlds of those it holds to be alive, as long as one of them
 * is a carrier. Where all carriers are dead the job begins anew from its checkpoint; where one is
 * lost all may go back to it, with another carrier among them. */
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
					living = living | (alive[k] << k);
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
					begin_lineage(); given_up = active_gen; k = 0;
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
