/** Work that nobody waits for: usage, refunds, reconciliation. */
export const BACKGROUND_QUEUE = "background";
