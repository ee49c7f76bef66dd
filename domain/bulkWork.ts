/*
 * Bulk work (lists, exports, imports, reconciliations, folding) yields to recording: while any process records
 * registrations, donations or refunds, all bulk work together takes a share of the time, in small steps.
 */

/** The share of the time that steps of bulk work take while anything is recorded. */
const SHARE = 1 / 5;

/** A step that took longer was not split, or waited for something else. Its whole rest would delay others for too long. */
const MAXIMUM_STEP_MS = 250;

/** Longer than the time between two looks, and than the second in which a usage fact's time is rounded. */
const RECENT_MS = 2500;

/** The latest records of clients, and how old they were when they were read. Another position means that there are new ones. */
export type LatestRecords = { readonly position: string; readonly ageMs: number };

/** What a process has seen of the latest records; times are of its own clock. */
export type Sighting = { readonly position: string; readonly recordedAtMs: number };

/** Returns when something was recorded, as far as a process can tell from what it saw before. */
export const sight = (
  { position, ageMs }: LatestRecords,
  before: Sighting | null,
  nowMs: number,
): Sighting => ({
  position,
  recordedAtMs:
    before === null
      ? nowMs - Math.max(0, ageMs)
      : position === before.position
        ? before.recordedAtMs
        : nowMs,
});

export const isRecent = ({ recordedAtMs }: Sighting, nowMs: number): boolean =>
  nowMs - recordedAtMs < RECENT_MS;

/** Returns how long the turn of a step lasts, with the rest that belongs to it. */
export const turnMs = (stepMs: number): number =>
  Math.ceil(Math.min(stepMs, MAXIMUM_STEP_MS) / SHARE);

/** How long a step should take while anything is recorded. */
const GOOD_STEP_MS = 3;

/** Bounds a step if the next rows are many more. */
const MAXIMUM_GROWTH = 4;

/** Returns the size of the next step, from the size of the last one and how long it took. */
export const nextSize = (size: number, lastStepMs: number): number =>
  Math.max(
    1,
    Math.floor(size * Math.min(MAXIMUM_GROWTH, GOOD_STEP_MS / Math.max(lastStepMs, 0.1))),
  );
