import {
  allHandlersFinished,
  condition,
  defineUpdate,
  proxyLocalActivities,
  setHandler,
} from "@temporalio/workflow";
import type { DonationActivities } from "../activities/createDonationActivities.ts";
import type { TraceParent } from "../runtime/tracing.ts";
import type { CharityLookup, CharityValidation } from "../modules/charities/charities.rules.ts";

// A client waits, and the call is short: run within the workflow's only task, it needs no task of its own.
const { validateCharity } = proxyLocalActivities<DonationActivities>({
  // Calls of the provider have shorter timeouts.
  startToCloseTimeout: "5 seconds",
  retry: { initialInterval: "100 milliseconds", maximumAttempts: 2 },
});

/** Returns the result of the validation as soon as there is one. */
export const validationUpdate = defineUpdate<CharityValidation>("validation");

/**
 * Validates a donation's charity with its remote provider. The details found are stored, for the retry and later donations.
 * The API asks for the result by the request that starts the workflow, which saves it a request and the server a search.
 * @param traceParent the span that waits for it, if tracing is on
 */
export const donation = async (
  lookup: CharityLookup,
  traceParent?: TraceParent,
): Promise<CharityValidation> => {
  const validated = validateCharity(lookup, traceParent).catch((): CharityValidation => ({
    kind: "unavailable",
    reason: "the validation did not finish",
  }));
  setHandler(validationUpdate, () => validated);
  const validation = await validated;
  await condition(allHandlersFinished);
  return validation;
};
