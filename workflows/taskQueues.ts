/** Work that nobody waits for: usage, refunds, planting, reconciliation. */
export const BACKGROUND_QUEUE = "background";

/** Work that a client waits for: donations. It has workers of its own, so that no backlog delays a person. */
export const INTERACTIVE_QUEUE = "interactive";
