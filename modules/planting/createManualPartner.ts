import type { TimelineShape } from "../../runtime/config/plantingChoices.rules.ts";
import type { PlantingPartner } from "./partner.ts";

/** A partner without an API: an operator places the orders, and facts are reported by callback or by the operator. */
export const createManualPartner = ({
  name,
  timeline,
}: {
  readonly name: string;
  readonly timeline: TimelineShape;
}): PlantingPartner => ({
  kind: "manual",
  name,
  timeline,
  isVerificationPolled: false,
  placeOrder: () => Promise.resolve(null),
  fetchUpdates: () => Promise.resolve({ facts: [], nextPollMs: null }),
});
