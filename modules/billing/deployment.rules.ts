import type { ProcessorName } from "./usage.rules.ts";

/** A Stripe account as a key opens it: in live mode or in test mode. */
export type StripeAccount = { readonly id: string; readonly isLive: boolean };

/** Who bills live usage. */
export type LiveProcessor =
  | { readonly name: "ledger" }
  | { readonly name: "stripe"; readonly account: StripeAccount };

export const describeAccount = ({ id, isLive }: StripeAccount): string =>
  `the Stripe account ${id} (${isLive ? "live" : "test"} mode)`;

/**
 * Returns why a process may not bill with its configured processor, in a sentence that says what to do, or null. Usage that one
 * processor has must not be billed by another, so a recorded processor changes by an operator's decision only. A copy of a
 * database never bills through the live account of the original, which has the same customers and usage.
 */
export const findProcessorProblem = (
  recorded: LiveProcessor | null,
  configured: LiveProcessor,
  {
    ledgerHasLiveUsage,
    originalStripeAccountId,
  }: {
    readonly ledgerHasLiveUsage: boolean;
    /** The account, in live mode, of the deployment from which this one was copied; null if there is none. */
    readonly originalStripeAccountId: string | null;
  },
): string | null => {
  const account = configured.name === "stripe" ? configured.account : null;
  if (account?.isLive && account.id === originalStripeAccountId) {
    return `This deployment is a copy of one that bills through ${describeAccount(account)}, and STRIPE_SECRET_KEY belongs to that account. Unset it, or set it to a key in test mode.`;
  }
  if (recorded?.name === "ledger" && account !== null && ledgerHasLiveUsage) {
    return 'The built-in ledger bills this deployment\'s live usage, but STRIPE_SECRET_KEY is set. Unset the key, or see "From the ledger to Stripe" in docs/operations.md.';
  }
  if (recorded?.name !== "stripe") {
    return null;
  }
  const bills = `This deployment bills through ${describeAccount(recorded.account)}, but STRIPE_SECRET_KEY`;
  if (account === null) {
    return `${bills} is not set. Set it to a key of that account.`;
  }
  return account.id === recorded.account.id && account.isLive === recorded.account.isLive
    ? null
    : `${bills} belongs to ${describeAccount(account)}. Set it to a key of the former, or use another database.`;
};

/** Returns the problem of a process that seals live usage for another processor than the deployment's, or null. */
export const findSealingProblem = (
  recorded: LiveProcessor | null,
  configured: ProcessorName,
): string | null =>
  recorded === null || recorded.name === configured
    ? null
    : `this deployment bills live usage with ${recorded.name}, but this process is set up for ${configured}; see \`impact doctor\``;

/** Long enough that two deployments of a namespace have different names, and short enough to be read. */
const NAME_CHARACTERS = 8;

/** Returns the name of a deployment in Temporal, with which the names of its workflows, schedules and task queues begin. */
export const deploymentNameOf = ({ id }: { readonly id: string }): string =>
  id.slice(0, NAME_CHARACTERS);

export const UNDECIDED_COPY =
  "The database was restored, promoted or copied. If it replaces the old one, run `impact usage resume`. If it is a copy that is used beside the old one, run `impact usage resume --as-copy`.";

/** Why no usage is sealed or sent. `at` is null if no program has noticed the changed database yet. */
export type Hold = { readonly at: Date | null; readonly reason: string; readonly by: string };

export const RESTORE_HOLD: Hold = {
  at: null,
  reason: "the database was restored, promoted or copied",
  by: "restore guard",
};

export const describeHold = ({ reason, by }: Hold): string => `usage is held by ${by}: ${reason}`;

export const HOLD_ADVICE =
  "To end the hold, run `impact usage resume`; `--dry-run` shows what that does.";
