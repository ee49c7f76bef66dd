import { accountModeOf } from "../../modules/records/owner.rules.ts";
import { subscribeToDonations } from "../../modules/charities/subscribeToDonations.ts";
import { charitySearchEndpoint, REQUESTS_PER_SECOND } from "../endpoints/charities.ts";
import { keyEndpoint } from "../http/endpoint.ts";
import type { Endpoint } from "../http/endpoint.ts";
import type { StandaloneContext } from "../context.ts";
import { donationEndpoints } from "./donationEndpoints.ts";
import { TAG, subscribeResponse } from "./donationSchemas.ts";

const subscribeEndpoint = ({ db, clock, billing }: StandaloneContext): Endpoint =>
  keyEndpoint({
    method: "post",
    path: "/charities/subscribe",
    requestsPerSecond: REQUESTS_PER_SECOND,
    description: {
      operationId: "subscribeToDonations",
      tag: TAG,
      summary: "Activate the donation subscription",
      details:
        "Adds the flat-rate and the metered donation item to the organization's subscription. Required once before live " +
        "donations; repeating it changes nothing. Send no body. A test key does not enable live donations.",
      errors: {
        request_invalid: "The organization has no subscription to add the items to.",
        internal_error:
          "The payment processor failed and nothing was added, or an unexpected error occurred.",
      },
    },
    schemas: { response: subscribeResponse },
    handle: async ({ caller }) => {
      await subscribeToDonations({ db, clock, billing }, accountModeOf(caller));
      return {
        success: true,
        message:
          caller.mode === "live"
            ? "the donation subscription is active"
            : "the donation subscription is active in test mode; live donations need the production key",
      };
    },
  });

/** The endpoints of charities and donations. */
export const charityEndpoints = (context: StandaloneContext): readonly Endpoint[] => [
  charitySearchEndpoint(context, {
    path: "/charities/search",
    requestsPerSecond: REQUESTS_PER_SECOND,
    tag: TAG,
    details:
      "Results come from the charity provider that the operator has chosen for the organization.",
  }),
  ...donationEndpoints(context),
  subscribeEndpoint(context),
];
