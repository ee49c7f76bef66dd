/** Work that never ends. A perpetual workflow does each kind, in one worker at a time. */
export const PERPETUAL_KINDS = ["usage-sender", "webhook-sender", "dispatcher"] as const;
export type PerpetualKind = (typeof PERPETUAL_KINDS)[number];

/**
 * The time limit of a run of such a workflow. A run that Temporal has lost track of, after its database was restored, ends by
 * it, and workers start another one.
 */
export const PERPETUAL_RUN_TIMEOUT = "10 minutes";
