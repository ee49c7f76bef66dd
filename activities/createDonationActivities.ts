import { Context } from "@temporalio/activity";
import type { CharityLookup, CharityValidation } from "../modules/charities/charities.rules.ts";
import { SpanKind } from "@opentelemetry/api";
import { continueTrace, inSpan } from "../runtime/tracing.ts";
import type { TraceParent } from "../runtime/tracing.ts";
import { validateCharity } from "../modules/charities/confirmCharities.ts";
import type { CharityContext } from "../modules/charities/context.ts";

/** The activities of donations, which run on the interactive queue because clients wait for them. */
export const createDonationActivities = (context: Pick<CharityContext, "charities">) => ({
  validateCharity: (lookup: CharityLookup, traceParent?: TraceParent): Promise<CharityValidation> =>
    inSpan("validate charity", { kind: SpanKind.CLIENT, parent: continueTrace(traceParent) }, () =>
      validateCharity(context, lookup, Context.current().cancellationSignal),
    ),
});

export type DonationActivities = ReturnType<typeof createDonationActivities>;
