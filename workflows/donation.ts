import {
  allHandlersFinished,
  ApplicationFailure,
  condition,
  defineUpdate,
  proxyActivities,
  setHandler,
} from "@temporalio/workflow";
import type { DonationActivities } from "../activities/createDonationActivities.ts";
import type { DonationOutcome } from "../domain/charities/donations.ts";

/** Waits for the outcome. Whoever asks gives the donation's id as the update's, so that all wait for one and the same. */
export const validateUpdate = defineUpdate<DonationOutcome>("validate");

export const donationWorkflowId = (donationId: string): string => `donation-${donationId}`;

const { checkDonation } = proxyActivities<DonationActivities>({
  // The provider has time limits of its own and is asked twice at most; here a lost worker is bridged.
  startToCloseTimeout: "5 seconds",
  retry: { initialInterval: "100 milliseconds", maximumAttempts: 2 },
});

const { recordDonation, withdrawDonation } = proxyActivities<DonationActivities>({
  startToCloseTimeout: "5 seconds",
  retry: { initialInterval: "100 milliseconds", maximumInterval: "1 minute" },
});

/** What the workflow does, whoever runs its activities. */
export const decideDonation = async (
  activities: DonationActivities,
  donationId: string,
): Promise<DonationOutcome> => {
  let checked: Awaited<ReturnType<DonationActivities["checkDonation"]>>;
  try {
    checked = await activities.checkDonation(donationId);
  } catch {
    await activities.withdrawDonation(donationId);
    return { kind: "unchecked", reason: "the check did not end" };
  }
  return checked.kind === "valid" ? activities.recordDonation(donationId, checked) : checked;
};

/** Checks the charity of a requested donation and records it. Somebody waits, so it runs on the interactive queue. */
export const donation = async (donationId: string): Promise<DonationOutcome> => {
  let outcome: DonationOutcome | null = null;
  setHandler(validateUpdate, async () => {
    await condition(() => outcome !== null);
    if (outcome === null) {
      throw ApplicationFailure.nonRetryable("There is no outcome.");
    }
    return outcome;
  });
  outcome = await decideDonation({ checkDonation, recordDonation, withdrawDonation }, donationId);
  await condition(allHandlersFinished);
  return outcome;
};
