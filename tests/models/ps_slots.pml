/* The slot protocol of the parameter server (docs/internals/protocol-ps.md), for exhaustive search with SPIN.
 *
 * One step of the model is one load or store of shared memory, with the private work around it; a
 * process can be killed before each of them. A gradient is two words that are stored apart, so is
 * its description, and so are the weights and the optimizer state of a block: every copy can be
 * torn. What a word holds is the set of mini-batches that were added to it, so a contribution that
 * comes twice, or to half of the model, is seen where it happens.
 *
 * A kill of the server is modelled as a kill of each shard thread at a point of its own choice.
 * This covers the kill of the whole process: no word is written by two threads, and until its kill
 * a stopped thread cannot be told from a slow one. What one thread alone reads and writes (weights,
 * shadow, journal) is a local variable of its process that survives the kill: the partial-order
 * reduction may then skip interleavings of it.
 *
 * Waiting is a blocked statement and not a loop, so every run ends: in the final checks, in a
 * failed assertion, or in a deadlock. MUTANT=n plants one mistake; run_models.py lists them.
 */

/* Bounds. SERVER_KILLS is per shard thread, LEARNER_KILLS per learner. */
#ifndef LEARNERS
#define LEARNERS 2
#endif
#ifndef SHARDS
#define SHARDS 2
#endif
#ifndef BLOCKS
#define BLOCKS 1 /* of weights, in each shard; shard 0 has the ledger as one more */
#endif
#ifndef BATCHES
#define BATCHES 1 /* mini-batches of each learner */
#endif
#ifndef SERVER_KILLS
#define SERVER_KILLS 1
#endif
#ifndef LEARNER_KILLS
#define LEARNER_KILLS 1
#endif
#ifndef COARSE
#define COARSE 0 /* 1: slots are read with pub, and seen with pub; why is in docs/internals/protocol-ps.md */
#endif
#ifndef RESUME_AS_COMMITTED
#define RESUME_AS_COMMITTED 0 /* 1: a new incarnation looks first whether its meta is folded */
#endif
#ifndef MUTANT
#define MUTANT 0
#endif

#define M_FLAG_FIRST 1        /* a FULL flag per buffer, cleared by the first shard that ends */
#define M_FLAG_LAST 2         /* the same, cleared by the last shard that ends */
#define M_ONE_JOURNAL 3       /* one journal word for all shards */
#define M_NO_SHADOW 4         /* blocks are changed in place and done again */
#define M_ONE_SHADOW 5        /* one shadow block */
#define M_FOLDED_EARLY_COPY 6 /* folded is stored before the last copy */
#define M_FOLDED_EARLY_READ 7 /* folded is stored before the slot is read for the last time */
#define M_PUB_BEFORE_GRADIENT 8
#define M_PUB_BEFORE_META 9
#define M_ADD_PUBLISHED 10    /* a learner adds to a published gradient that no shard has begun */
#define M_ADD_AFTER_RESTART 11 /* the first mini-batch after a restart does not overwrite */
#define M_START_AT_ONE 12     /* a new incarnation starts its sequence again */
#define M_RESUME_LEDGER 13    /* a new incarnation resumes from the ledger */
#define M_LEDGER_LATE 14      /* the ledger is written after the slot was released */
#define M_VERSION_COUNTED 15  /* the version is a counter that each fold increments */
#define M_TWO_WRITERS 16      /* a successor starts while a thread of the dead server still stores */
#define M_REDO_FOLDED 17      /* recovery does not compare the journal with folded */
#define M_REDO_ALL 18         /* recovery begins the fold again at block 0 */
#define M_NO_REDO 19          /* recovery goes on after the journalled block without its copy */
#define M_JOURNAL_EARLY 20    /* the journal is stored before the shadow is whole */
#define M_FREE_BY_ONE 21      /* a slot counts as free when shard 0 has folded it */

/* A set of mini-batches of all learners. TWICE: one of them was added twice. */
#define BATCH(l, m) (1 << ((l) * BATCHES + (m)))
#define ALL ((1 << (LEARNERS * BATCHES)) - 1)
#define TWICE 128
#define ADDED(set, one) (((set) & (one)) -> TWICE : ((set) | (one)))
/* The mini-batch after the last one of learner l in the set. */
#define HAS(set, l, m) ((m) < BATCHES && ((set) & BATCH(l, m)))
#define AFTER(set, l) (HAS(set, l, 2) -> 3 : (HAS(set, l, 1) -> 2 : (HAS(set, l, 0) -> 1 : 0)))

/* ---- Shared memory ---- */

byte pub[LEARNERS];             /* highest sequence number published: the commit */
byte folded[LEARNERS * SHARDS]; /* highest sequence number that a shard has folded */
byte slot[LEARNERS * 8];        /* per learner two buffers of four words */
#define FOLDED(l, k) folded[(l) * SHARDS + (k)]
#define SLOT(l, q, word) slot[(l) * 8 + ((q) & 1) * 4 + (word)]
#define META 2                  /* words 0, 1: gradient; 2, 3: ranges and resume point */
#define RESUME 3

#define FOLDED_BY_ALL(l, q) \
  (FOLDED(l, 0) >= (q) && FOLDED(l, 1 % SHARDS) >= (q) && FOLDED(l, 2 % SHARDS) >= (q))

typedef Memory {                /* of one shard: weights and optimizer state, shadow, journal word */
  byte cell[2 * BLOCKS + 2];
  byte shadow[4];
  byte journal_learner;
  byte journal_block;           /* block + 1 */
  byte journal_sequence         /* 0: nothing was journalled yet */
}
#if MUTANT == M_RESUME_LEDGER || MUTANT == M_TWO_WRITERS || RESUME_AS_COMMITTED
Memory memory[SHARDS];          /* somebody else looks at it */
#define my memory[k]
#define LEDGER memory[0].cell[2 * BLOCKS]
#endif
#define CELL(n, half) my.cell[(n) * 2 + (half)]
#define INITIAL(n) ((n) << 6)   /* blocks differ, or one block's values in another would not be seen */
#if LEARNERS * BATCHES > 6 || BLOCKS > 3
#error "a cell has 6 bits for mini-batches and 2 for the number of the block"
#endif

#if MUTANT == M_ONE_SHADOW
#define SHADOW(n, half) my.shadow[half]
#else
#define SHADOW(n, half) my.shadow[(((n) + 1) & 1) * 2 + (half)]
#endif

#if MUTANT == M_ONE_JOURNAL
Memory common;
#define JOURNAL(field) common.journal_##field
#else
#define JOURNAL(field) my.journal_##field
#endif

#if MUTANT == M_LEDGER_LATE
#define BLOCKS_OF(k) BLOCKS
#else
#define BLOCKS_OF(k) (BLOCKS + (k == 0))
#endif

#if MUTANT == M_FLAG_FIRST || MUTANT == M_FLAG_LAST
#define FLAGS 1
bool flag[LEARNERS * 2];
#define FULL(l, q) flag[(l) * 2 + ((q) & 1)]
#define IS_FREE(l, q, k) (!FULL(l, q))
#elif MUTANT == M_FREE_BY_ONE
#define IS_FREE(l, q, k) (FOLDED(l, 0) == (q))
#else
#define IS_FREE(l, q, k) (FOLDED(l, k) == (q))
#endif

byte ended;                     /* learners that are through; not of the protocol */

#define OR_KILLED :: kills > 0 -> kills--; goto killed
#define STEP(action) if :: atomic { action } OR_KILLED fi

/* ---- A learner: all incarnations that hold the slot, one after the other ---- */

#if COARSE
#define OWN(q, word) own[((q) & 1) * 4 + (word)]
#define REVEAL(word) SLOT(l, q, word) = OWN(q, word)
#define PUBLISH REVEAL(0); REVEAL(1); REVEAL(META); REVEAL(RESUME); CHECK_OWN; pub[l] = q; published = q
#define CHECK_STORE
#define LOAD_OWN_PUB published
#else
#define OWN(q, word) SLOT(l, q, word)
#define PUBLISH pub[l] = q
#define CHECK_STORE CHECK_OWN;
#define LOAD_OWN_PUB pub[l]
#endif
/* The buffer of q + 1 held q - 1, which nobody may still have to read. */
#define CHECK_OWN assert(q == 0 || FOLDED_BY_ALL(l, q - 1))
#if MUTANT == M_ADD_AFTER_RESTART
#define OVERWRITES (pending == 0 && kills == LEARNER_KILLS)
#else
#define OVERWRITES (pending == 0)
#endif
#define STORE_GRADIENT(word) \
  CHECK_STORE OWN(q + 1, word) = (OVERWRITES -> BATCH(l, next) : ADDED(OWN(q + 1, word), BATCH(l, next)))
#define STORE_META(word) CHECK_STORE OWN(q + 1, word) = pending
#define NEXT_BATCH if :: next < BATCHES -> goto mini_batch :: else -> goto flush fi

proctype learner(byte l) {
  byte q;                       /* sequence number published last */
  byte next;                    /* first mini-batch that is neither committed nor in our buffer */
  byte pending;                 /* the mini-batches in our buffer; kept in private memory */
  byte k;
  byte kills = LEARNER_KILLS;
#if COARSE
  byte own[8];                  /* the slot and pub, as their writer sees them; survive kills */
  byte published;
#endif

attach:                         /* go on where the last incarnation ended: pub, then its meta */
  STEP(q = LOAD_OWN_PUB);
#if MUTANT == M_RESUME_LEDGER
  STEP(next = AFTER(LEDGER, l); NEXT_BATCH);
#elif RESUME_AS_COMMITTED
  if                            /* meta, unless shard 0 has folded it: then the ledger has it */
  :: atomic { FOLDED(l, 0) < q -> goto load_resume }
  :: FOLDED(l, 0) >= q
  OR_KILLED
  fi;
  STEP(next = AFTER(LEDGER, l); NEXT_BATCH);
load_resume:
  STEP(next = AFTER(OWN(q, RESUME), l); NEXT_BATCH);
#elif MUTANT == M_START_AT_ONE
  STEP(next = AFTER(OWN(q, RESUME), l); q = (kills < LEARNER_KILLS -> 0 : q); NEXT_BATCH);
#else
  STEP(next = AFTER(OWN(q, RESUME), l); NEXT_BATCH);
#endif

mini_batch:
#if MUTANT == M_ADD_PUBLISHED
  if
  :: pending == 0 && FOLDED(l, 0) < q && FOLDED(l, SHARDS - 1) < q ->
    STEP(SLOT(l, q, 0) = ADDED(SLOT(l, q, 0), BATCH(l, next)));
    STEP(SLOT(l, q, 1) = ADDED(SLOT(l, q, 1), BATCH(l, next)));
    STEP(SLOT(l, q, META) = ADDED(SLOT(l, q, META), BATCH(l, next)));
    STEP(SLOT(l, q, RESUME) = ADDED(SLOT(l, q, RESUME), BATCH(l, next)); next++; NEXT_BATCH)
  :: else
  fi;
#endif
  /* write_gradient */
#if MUTANT == M_PUB_BEFORE_GRADIENT
  STEP(STORE_GRADIENT(0); pending = pending | BATCH(l, next); next++);
#else
  STEP(STORE_GRADIENT(0));
  STEP(STORE_GRADIENT(1); pending = pending | BATCH(l, next); next++);
#endif

load_folded:                    /* is the other buffer free? */
  if
  :: atomic { k < SHARDS - 1 && IS_FREE(l, q, k) -> k++; goto load_folded }
  :: atomic { k == SHARDS - 1 && IS_FREE(l, q, k) -> k = 0 }
  :: atomic { !IS_FREE(l, q, k) && next < BATCHES -> k = 0; goto mini_batch }
  OR_KILLED                     /* not free, and nothing is left to compute: wait here */
  fi;

  /* write_meta: the ranges, the resume point */
#if MUTANT != M_PUB_BEFORE_META
  STEP(STORE_META(META));
#endif
  STEP(STORE_META(RESUME));

  /* publish */
#if MUTANT == M_PUB_BEFORE_GRADIENT
  STEP(q++; pub[l] = q);
  STEP(SLOT(l, q, 1) = pending; pending = 0; NEXT_BATCH);
#elif MUTANT == M_PUB_BEFORE_META
  STEP(q++; pub[l] = q);
  STEP(SLOT(l, q, META) = pending; pending = 0; NEXT_BATCH);
#elif MUTANT == M_FLAG_FIRST || MUTANT == M_FLAG_LAST
  STEP(q++; pub[l] = q; FULL(l, q) = true; pending = 0; NEXT_BATCH);
#else
  STEP(q++; PUBLISH; pending = 0; NEXT_BATCH);
#endif

flush:                          /* all is published: wait until all is folded */
  if
  :: atomic { k < SHARDS - 1 && IS_FREE(l, q, k) -> k++; goto flush }
  :: atomic { k == SHARDS - 1 && IS_FREE(l, q, k) -> assert(FOLDED_BY_ALL(l, pub[l])); ended++ }
  OR_KILLED
  fi;
  goto end;

killed:
  atomic { q = 0; next = 0; k = 0; pending = 0; goto attach }
end:
  atomic { q = 0; next = 0; k = 0; kills = 0 }
}

/* ---- A thread of the server, and its successors ---- */

#define WORD(n, half) (n == BLOCKS -> META + half : half)
#if COARSE
#define READ(n, half) read[WORD(n, half)]
#define READ_WORD(word) read[word] = SLOT(l, q, word)
#define LOAD READ_WORD(0); READ_WORD(1); READ_WORD(META); READ_WORD(RESUME)
#define OWN_FOLDED(l) own_folded[l]
#define STORE_OWN_FOLDED FORGET own_folded[l] = q;
#define FORGET read[0] = 0; read[1] = 0; read[META] = 0; read[RESUME] = 0;
#else
#define READ(n, half) SLOT(l, q, WORD(n, half))
#define LOAD
#define OWN_FOLDED(l) FOLDED(l, k)
#define STORE_OWN_FOLDED
#define FORGET
#endif
#define INITIALISE(n) for (n : 0 .. BLOCKS) { CELL(n, 0) = INITIAL(n); CELL(n, 1) = INITIAL(n) }
/* What is folded was published whole, and is not in the cell yet. */
#define CHECK_READ(half) \
  assert(READ(n, half) != 0 && !(READ(n, half) & TWICE) && !(READ(n, half) & CELL(n, half)))
#define WRITE_SHADOW(half) CHECK_READ(half); SHADOW(n, half) = CELL(n, half) | READ(n, half)
#define COPY_SHADOW(half) CELL(n, half) = SHADOW(n, half)
#define STORE_JOURNAL JOURNAL(learner) = l; JOURNAL(block) = n + 1; JOURNAL(sequence) = q
#define NEXT_BLOCK n++; if :: n < BLOCKS_OF(k) -> goto fold_block :: else -> goto store_folded fi

#if MUTANT == M_REDO_FOLDED
#define UNFINISHED (JOURNAL(sequence) > 0)
#else
#define UNFINISHED (JOURNAL(sequence) == OWN_FOLDED(JOURNAL(learner)) + 1)
#endif
#if MUTANT == M_NO_SHADOW
#define REDO goto fold_block
#elif MUTANT == M_REDO_ALL
#define REDO n = 0; goto fold_block
#elif MUTANT == M_NO_REDO
#define REDO NEXT_BLOCK
#else
#define REDO goto copy_shadow   /* redo_copy */
#endif

proctype shard(byte k) {
#ifndef my
  Memory my;                    /* survives kills: it is in the segment */
#endif
  byte l;
  byte q;
  byte n;
  byte kills = SERVER_KILLS;
#if COARSE
  byte read[4];                 /* what the slot holds */
  byte own_folded[LEARNERS];
#endif
#if MUTANT == M_VERSION_COUNTED
  byte version;                 /* in the segment, too */
#endif

#ifndef my
  atomic { INITIALISE(n); n = 0 }
#endif

recover:                        /* load_journal */
  if
  :: atomic { UNFINISHED -> l = JOURNAL(learner); q = JOURNAL(sequence); n = JOURNAL(block) - 1; REDO }
  :: atomic { !UNFINISHED -> FORGET goto load_pub }
  OR_KILLED
  fi;

load_pub:
  if
  :: atomic { FOLDED(0, k) < pub[0] -> l = 0; q = FOLDED(0, k) + 1; LOAD }
#if LEARNERS > 1
  :: atomic { FOLDED(1, k) < pub[1] -> l = 1; q = FOLDED(1, k) + 1; LOAD }
#endif
#if LEARNERS > 2
  :: atomic { FOLDED(2, k) < pub[2] -> l = 2; q = FOLDED(2, k) + 1; LOAD }
#endif
  :: ended == LEARNERS -> goto finish
  OR_KILLED
  fi;

fold_block:
#if MUTANT == M_NO_SHADOW
  STEP(STORE_JOURNAL);
  STEP(CHECK_READ(0); CELL(n, 0) = CELL(n, 0) | READ(n, 0));
  STEP(CHECK_READ(1); CELL(n, 1) = CELL(n, 1) | READ(n, 1); NEXT_BLOCK);
#else
  STEP(WRITE_SHADOW(0));
#if MUTANT == M_FOLDED_EARLY_READ
  if :: n + 1 == BLOCKS_OF(k) -> STEP(FOLDED(l, k) = q) :: else fi;
#endif
#if MUTANT == M_JOURNAL_EARLY
  STEP(STORE_JOURNAL);
  STEP(WRITE_SHADOW(1));
#else
  STEP(WRITE_SHADOW(1));
  /* store_journal */
  STEP(STORE_JOURNAL);
#endif
#if MUTANT == M_FOLDED_EARLY_COPY
  if :: n + 1 == BLOCKS_OF(k) -> STEP(FOLDED(l, k) = q) :: else fi;
#endif
copy_shadow:
  STEP(COPY_SHADOW(0));
  STEP(COPY_SHADOW(1); NEXT_BLOCK);
#endif

store_folded:
#if MUTANT == M_VERSION_COUNTED
  STEP(version++; assert(version == FOLDED(0, k) + FOLDED(1, k) + 1));
#endif
  STEP(
    for (n : 0 .. BLOCKS_OF(k) - 1) {
      assert(CELL(n, 0) == INITIAL(n) + CELL(0, 0) && CELL(n, 1) == CELL(n, 0))
    }
    n = 0; STORE_OWN_FOLDED
    FOLDED(l, k) = q);
#if MUTANT == M_LEDGER_LATE
  if
  :: k == 0 -> STEP(CELL(BLOCKS, 0) = CELL(BLOCKS, 0) | SLOT(l, q, META));
     STEP(CELL(BLOCKS, 1) = CELL(BLOCKS, 1) | SLOT(l, q, RESUME))
  :: else
  fi;
#elif MUTANT == M_FLAG_FIRST
  STEP(FULL(l, q) = false);
#elif MUTANT == M_FLAG_LAST
  if :: FOLDED_BY_ALL(l, q) -> STEP(FULL(l, q) = false) :: else fi;
#endif
  goto load_pub;

killed:
  atomic { l = 0; q = 0; n = 0 }
  goto recover;

finish:                         /* everything exactly once, in every half; the ledger agrees */
  atomic {
    for (n : 0 .. BLOCKS - (k > 0)) {
      assert(CELL(n, 0) == INITIAL(n) + ALL && CELL(n, 1) == CELL(n, 0))
    }
  }
}

init {
  byte i;
  atomic {
#ifdef my
    byte k;
    for (k : 0 .. SHARDS - 1) { INITIALISE(i) }
#endif
    for (i : 0 .. LEARNERS - 1) { run learner(i) }
    for (i : 0 .. SHARDS - 1) { run shard(i) }
#if MUTANT == M_TWO_WRITERS
    run shard(SHARDS - 1)
#endif
  }
}
