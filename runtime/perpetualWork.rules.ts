/** Work that never ends. A perpetual workflow does each kind, in one worker at a time. */
export const PERPETUAL_KINDS = ["usage-sender", "webhook-sender", "dispatcher"] as const;
export type PerpetualKind = (typeof PERPETUAL_KINDS)[number];
