/*
 * Bulk work (lists, exports, imports, reconciliations, planting orders) yields to recording: while any process
 * records registrations, donations or refunds, all bulk work together takes a share of the time, in small steps.
 */

/** Up to this rate (records a second), one core of a two-core machine stays free for bulk work. */
const RECORDS_OF_A_FREE_CORE = 100;

/** Bulk work always progresses. */
const MINIMUM_SHARE = 1 / 5;

/** A step that takes longer is not split, or waits for something else. It and its whole pause would delay others for too long. */
export const MAXIMUM_STEP_MS = 250;

/** Longer than the time between two reads, and than the second to which a usage fact's time is rounded. */
const RECENT_MS = 2500;

/**
 * The ids of the latest records of clients, and how old the youngest was when they were read: of a usage fact, of an entry
 * of a store's balance, and of a donation's event. `recordsPerFact` is the average of the latest usage facts.
 */
export type LatestRecords = {
  readonly factId: bigint | null;
  readonly recordsPerFact: number;
  readonly entryId: bigint | null;
  readonly eventId: string | null;
  readonly ageMs: number;
};

/** What a process has seen of the latest records; times are of its own clock. */
export type Observation = {
  readonly latest: LatestRecords;
  readonly recordedAtMs: number;
  /** 0 until it was counted for a second, so that a short command does not pause. */
  readonly recordsPerSecond: number;
  readonly countedFrom: { readonly latest: LatestRecords; readonly atMs: number };
};

const COUNTED_MS = 1000;

/** Numeric ids are consecutive. If other ids differ, or only one of two reads found a record, that counts as one record. */
const newIds = (before: bigint | string | null, after: bigint | string | null): number => {
  if (before === after) {
    return 0;
  }
  return typeof before === "bigint" && typeof after === "bigint"
    ? Math.max(0, Number(after - before))
    : 1;
};

const recordsBetween = (before: LatestRecords, after: LatestRecords): number =>
  newIds(before.factId, after.factId) * after.recordsPerFact +
  newIds(before.entryId, after.entryId) +
  newIds(before.eventId, after.eventId);

/** Returns a process's observation after it has read the latest records again. */
export const observe = (
  latest: LatestRecords,
  before: Observation | null,
  nowMs: number,
): Observation => {
  if (before === null) {
    return {
      latest,
      recordedAtMs: nowMs - Math.max(0, latest.ageMs),
      recordsPerSecond: 0,
      countedFrom: { latest, atMs: nowMs },
    };
  }
  const recordedAtMs = recordsBetween(before.latest, latest) > 0 ? nowMs : before.recordedAtMs;
  const elapsedMs = nowMs - before.countedFrom.atMs;
  if (elapsedMs < COUNTED_MS) {
    return { ...before, latest, recordedAtMs };
  }
  return {
    latest,
    recordedAtMs,
    recordsPerSecond: (recordsBetween(before.countedFrom.latest, latest) * 1000) / elapsedMs,
    countedFrom: { latest, atMs: nowMs },
  };
};

/** Returns the share of the time that steps of bulk work may take: all of it while clients record little. */
const shareBeside = (recordsPerSecond: number): number =>
  Math.max(MINIMUM_SHARE, Math.min(1, RECORDS_OF_A_FREE_CORE / recordsPerSecond));

export const isRecent = ({ recordedAtMs }: Observation, nowMs: number): boolean =>
  nowMs - recordedAtMs < RECENT_MS;

/** Returns how long the turn of a step lasts, with the pause that belongs to it. */
export const turnMs = (stepMs: number, recordsPerSecond: number): number =>
  Math.ceil(Math.min(stepMs, MAXIMUM_STEP_MS) / shareBeside(recordsPerSecond));
