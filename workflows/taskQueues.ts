/** Work that no client waits for: usage, refunds, planting, reconciliation. */
export const BACKGROUND_QUEUE = "background";

/** Work that a client waits for: donations. Its workers are separate, so that no backlog delays a client. */
export const INTERACTIVE_QUEUE = "interactive";
