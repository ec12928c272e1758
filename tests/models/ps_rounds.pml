/* Rounds of bulk-synchronous training (docs/internals/protocol-ps.md), for exhaustive search with SPIN.
 *
 * The thread of shard 0 also forms the rounds: it writes the sequence number of each member into
 * record[r & 1] and then stores the number r of the round. Every shard folds all members of the
 * round in one pass. How a gradient gets into its slot is the subject of ps_slots.pml; here a
 * learner publishes in one step. As there, one step is one load or store of shared memory, a kill
 * can come before each of them, a kill of the server is a kill of each shard thread at a point of
 * its own choice, and what one thread alone writes is a local variable where that thread reads it.
 * A gradient is read once, together with its member's entry in the record: publish asserts that no
 * slot changes that a shard may still have to read, so a later read would give the same.
 *
 * With SHARD_ROUNDS each shard forms rounds of its own, of whoever has published by then, and waits
 * for nobody: the batches of a server that folds in a GPU's memory. Its record and their number are
 * its own, too. What a GPU computes is no memory that others see, so that WRITE_SHADOW is one step
 * here as there.
 *
 * A learner waits until its gradient is folded, so it is in the next round again. A learner that
 * dies is reclaimed some time later; after that a new incarnation may come, or nobody.
 */

#ifndef LEARNERS
#define LEARNERS 2
#endif
#ifndef SHARDS
#define SHARDS 2
#endif
#ifndef BLOCKS
#define BLOCKS 1        /* in each shard */
#endif
#ifndef BATCHES
#define BATCHES 2
#endif
#ifndef SERVER_KILLS
#define SERVER_KILLS 1  /* per shard thread */
#endif
#ifndef LEARNER_KILLS
#define LEARNER_KILLS 1 /* per learner */
#endif
#ifndef SHARD_ROUNDS
#define SHARD_ROUNDS 0
#endif
#ifndef MUTANT
#define MUTANT 0
#endif

#define R_OWN_CHOICE 1          /* every shard takes the members from pub */
#define R_NUMBER_FIRST 2        /* the round's number is stored before its record */
#define R_NO_WAIT 3             /* a round is formed before all shards have folded the last one */
#define R_NO_RESTORE 4          /* recovery does not store the folded words again */
#define R_RESTORE_CURRENT 5     /* recovery stores them again only if no newer round was formed */
#define R_ONE_RECORD 6          /* one record for all rounds */
#define R_ONLY_ATTACHED 7       /* what a dead learner published is in no round */

#define BATCH(l, m) (1 << ((l) * BATCHES + (m)))
#define INITIAL(n) ((n) << 6)   /* blocks differ */
#if LEARNERS * BATCHES > 6 || BLOCKS > 3
#error "a cell has 6 bits for mini-batches and 2 for the number of the block"
#endif

/* ---- Shared memory ---- */

byte pub[LEARNERS];
bool attached[LEARNERS];
byte slot[LEARNERS * 2];
byte folded[LEARNERS * SHARDS];
byte round;                     /* the newest round that was formed */
byte record[LEARNERS * 2];      /* sequence number of each member; 0: not in this round */
byte round_folded[SHARDS];
#define SLOT(l, q) slot[(l) * 2 + ((q) & 1)]
#define FOLDED(l, k) folded[(l) * SHARDS + (k)]
#define FOLDED_BY_ALL(l, q) \
  (FOLDED(l, 0) >= (q) && FOLDED(l, 1 % SHARDS) >= (q) && FOLDED(l, 2 % SHARDS) >= (q))
#if SHARD_ROUNDS && MUTANT == R_ONE_RECORD
#define RECORD(r, l) own_record[l]
#elif SHARD_ROUNDS
#define RECORD(r, l) own_record[((r) & 1) * LEARNERS + (l)]
#elif MUTANT == R_ONE_RECORD
#define RECORD(r, l) record[l]
#else
#define RECORD(r, l) record[((r) & 1) * LEARNERS + (l)]
#endif

/* Not of the protocol: what was published, what each round held, and who is through. */
byte published;
byte sum[LEARNERS * BATCHES + 1];
byte ended;

#define OR_KILLED :: kills > 0 -> kills--; goto killed
#define STEP(action) if :: atomic { action } OR_KILLED fi

/* ---- A learner: all incarnations that hold the slot, one after the other ---- */

proctype learner(byte l) {
  byte q;
  byte k;
  byte kills = LEARNER_KILLS;

attach:
  q = pub[l];
  STEP(attached[l] = true);

wait:
  if
  :: atomic { k < SHARDS - 1 && FOLDED(l, k) == q -> k++; goto wait }
  :: atomic { k == SHARDS - 1 && FOLDED(l, k) == q -> k = 0;
       if :: q == BATCHES -> goto detach :: else fi }
  OR_KILLED
  fi;

  /* publish: mini-batch q is gradient q + 1 */
  STEP(
    assert(q == 0 || FOLDED_BY_ALL(l, q - 1));
    SLOT(l, q + 1) = BATCH(l, q); published = published | BATCH(l, q);
    q++; pub[l] = q);
  goto wait;

killed:                         /* reclaim, which the server does on proof of death */
  atomic { attached[l] = false; k = 0; if :: goto attach :: goto gone fi }

detach:
  attached[l] = false;
gone:
  atomic { ended++; q = 0; k = 0; kills = 0 }
}

/* ---- A thread of the server, and its successors ---- */

/* A round is due when all are done with the last one and whoever is attached has published. The
 * first stays true and somebody stays a member; a learner that attaches meanwhile comes next time.
 */
#define PUBLISHED(l) (pub[l] > FOLDED(l, 0))
#define PRESENT(l) (!attached[l] || PUBLISHED(l))
#if MUTANT == R_NO_WAIT
#define ALL_FOLDED (round_folded[0] == round)
#else
#define ALL_FOLDED \
  (round_folded[0] == round && round_folded[1 % SHARDS] == round && round_folded[2 % SHARDS] == round)
#endif
#if MUTANT == R_ONLY_ATTACHED
#define MEMBER(l) (attached[l] && PUBLISHED(l))
#else
#define MEMBER(l) PUBLISHED(l)
#endif
#if LEARNERS == 2
#define ROUND_DUE (ALL_FOLDED && PRESENT(0) && PRESENT(1) && (MEMBER(0) || MEMBER(1)))
#define ALL_OWN_FOLDED (FOLDED(0, k) == pub[0] && FOLDED(1, k) == pub[1])
#else
#define ROUND_DUE \
  (ALL_FOLDED && PRESENT(0) && PRESENT(1) && PRESENT(2) && (MEMBER(0) || MEMBER(1) || MEMBER(2)))
#define ALL_OWN_FOLDED (FOLDED(0, k) == pub[0] && FOLDED(1, k) == pub[1] && FOLDED(2, k) == pub[2])
#endif

#define CELL(n, half) cell[(n) * 2 + (half)]
#define SHADOW(n, half) shadow[(((n) + 1) & 1) * 2 + (half)]
/* The gradients of all members in one pass: none missing, none in the cell already. */
#define WRITE_SHADOW(half) \
  SHADOW(n, half) = CELL(n, half); \
  for (l : 0 .. LEARNERS - 1) { \
    if \
    :: member[l] > 0 -> \
      assert(word[l] == BATCH(l, member[l] - 1) && (SHADOW(n, half) & word[l]) == 0); \
      SHADOW(n, half) = SHADOW(n, half) | word[l] \
    :: else \
    fi \
  } \
  l = 0

proctype shard(byte k) {
  byte cell[2 * BLOCKS];        /* these survive kills: they are in the segment */
  byte shadow[4];
  byte journal_block;           /* with learner 255: a round */
  byte journal_round;
  byte done;                    /* round_folded[k], which nobody else writes */
#if SHARD_ROUNDS
  byte own_record[LEARNERS * 2];
#endif
  byte member[LEARNERS];        /* the round's record, as read */
  byte word[LEARNERS];          /* the members' gradients, as read */
  byte r;
  byte l;
  byte n;
  bool redo;
  byte kills = SERVER_KILLS;

  atomic {
    for (n : 0 .. BLOCKS - 1) { CELL(n, 0) = INITIAL(n); CELL(n, 1) = INITIAL(n) }
    n = 0
  }

recover:
  if
  :: atomic { journal_round == done + 1 -> r = journal_round; n = journal_block - 1;
       redo = true; goto load_record }
#if MUTANT == R_NO_RESTORE
  :: journal_round != done + 1 -> goto idle
#elif MUTANT == R_RESTORE_CURRENT
  :: atomic { journal_round != done + 1 && done == round && round > 0 ->
       r = round; n = BLOCKS; redo = true; goto load_record }
  :: journal_round != done + 1 && (done != round || round == 0) -> goto idle
#else
  :: atomic { journal_round != done + 1 && done > 0 ->
       r = done; n = BLOCKS; redo = true; goto load_record }
  :: journal_round != done + 1 && done == 0 -> goto idle
#endif
  OR_KILLED
  fi;

idle:
  if
#if SHARD_ROUNDS
  :: !ALL_OWN_FOLDED -> goto form_round
#else
  :: atomic { done < round -> r = done + 1; goto load_record }
  :: k == 0 && ROUND_DUE -> goto form_round
#endif
  :: ended == LEARNERS && ALL_OWN_FOLDED -> goto finish
  OR_KILLED
  fi;

form_round:                     /* shard 0 only, but with SHARD_ROUNDS */
#if SHARD_ROUNDS
  STEP(r = done + 1);
write_own_record:
  STEP(
    RECORD(r, l) = (pub[l] > FOLDED(l, k) -> FOLDED(l, k) + 1 : 0); l++;
    if :: l < LEARNERS -> goto write_own_record :: else -> l = 0; goto load_record fi);
#endif
#if MUTANT == R_NUMBER_FIRST
  STEP(round++; r = round);
#else
  STEP(r = round + 1);
#endif
write_record:                   /* whoever has published by now is a member */
  STEP(
    RECORD(r, l) = (MEMBER(l) -> FOLDED(l, 0) + 1 : 0); l++;
    if :: l < LEARNERS -> goto write_record :: else -> l = 0 fi);
#if MUTANT != R_NUMBER_FIRST
  STEP(assert(r <= LEARNERS * BATCHES); round = r); /* store_round; no round is empty */
#endif
  goto forget;

load_record:
  STEP(
#if MUTANT == R_OWN_CHOICE
    member[l] = (pub[l] > FOLDED(l, k) -> FOLDED(l, k) + 1 : 0);
#else
    member[l] = RECORD(r, l);
#endif
    word[l] = SLOT(l, member[l]);
    l++;
    if
    :: l < LEARNERS -> goto load_record
    :: else -> l = 0;
      if
      :: n == BLOCKS -> redo = false; goto store_folded
      :: n < BLOCKS && redo -> redo = false; goto copy_shadow
      :: else
      fi
    fi);

fold_block:
  STEP(WRITE_SHADOW(0));
  STEP(WRITE_SHADOW(1));
  STEP(journal_block = n + 1; journal_round = r);
copy_shadow:
  STEP(CELL(n, 0) = SHADOW(n, 0));
  STEP(CELL(n, 1) = SHADOW(n, 1); n++; if :: n < BLOCKS -> goto fold_block :: else fi);

  /* store_round_folded: every shard has folded the same sum */
  STEP(
    for (n : 0 .. BLOCKS - 1) {
      assert(CELL(n, 0) == INITIAL(n) + CELL(0, 0) && CELL(n, 1) == CELL(n, 0))
    }
#if !SHARD_ROUNDS
    assert(sum[r] == 0 || sum[r] == CELL(0, 0));
    sum[r] = CELL(0, 0);
#endif
    done = r; round_folded[k] = r);

store_folded:
  STEP(
    if :: member[l] > 0 -> FOLDED(l, k) = member[l] :: else fi;
    l++;
    if :: l < LEARNERS -> goto store_folded :: else -> l = 0 fi);

forget:
  atomic { for (l : 0 .. LEARNERS - 1) { member[l] = 0; word[l] = 0 } l = 0; n = 0; r = 0; goto idle }

killed:
  atomic { for (l : 0 .. LEARNERS - 1) { member[l] = 0; word[l] = 0 } l = 0; n = 0; r = 0; redo = false;
    goto recover }

finish:
  atomic {
    for (n : 0 .. BLOCKS - 1) {
      assert(CELL(n, 0) == INITIAL(n) + published && CELL(n, 1) == CELL(n, 0))
    }
  }
}

init {
  byte i;
  atomic {
    for (i : 0 .. LEARNERS - 1) { run learner(i) }
    for (i : 0 .. SHARDS - 1) { run shard(i) }
  }
}
