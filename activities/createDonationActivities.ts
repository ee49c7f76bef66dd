import { Context } from "@temporalio/activity";
import type { CharityLookup, CharityValidation } from "../modules/charities/charities.rules.ts";
import type { TraceParent } from "../runtime/tracing.rules.ts";
import { validateCharity } from "../modules/charities/confirmCharity.ts";
import type { CharityContext } from "../modules/charities/context.ts";

/** The activities of donations, which run on the interactive queue because clients wait for them. */
export const createDonationActivities = (
  context: Pick<CharityContext, "charities" | "tracing">,
) => ({
  validateCharity: (
    lookup: CharityLookup,
    traceParent?: TraceParent,
  ): Promise<CharityValidation> => {
    const validate = (): Promise<CharityValidation> =>
      validateCharity(context, lookup, Context.current().cancellationSignal);
    return context.tracing === undefined
      ? validate()
      : context.tracing.run(
          "validate charity",
          { kind: "client", parent: traceParent ?? null },
          validate,
        );
  },
});

export type DonationActivities = ReturnType<typeof createDonationActivities>;
