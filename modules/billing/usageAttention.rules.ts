/**
 * Why usage has an operator's attention.
 * - `refused`, `too_old`, `unclear`: it has failed.
 * - `credit_owed`: a refund of usage that a document bills; the customer is owed a credit note.
 * - `late`: it was delivered after its billing period had ended, and may be on no invoice.
 * - `difference`: units by which the processor's sum differs, and that no event explains.
 * - `trouble`: its attempts fail, and go on.
 * - `asking`: the processor is asked whether it has the usage, once its sums show it.
 */
export const ATTENTION_CAUSES = [
  "refused",
  "too_old",
  "unclear",
  "credit_owed",
  "late",
  "difference",
  "trouble",
  "asking",
] as const;
export type AttentionCause = (typeof ATTENTION_CAUSES)[number];

/** Returns whether an operator has to act. The others settle by themselves. */
export const needsOperator = (cause: AttentionCause): boolean =>
  cause !== "trouble" && cause !== "asking";
