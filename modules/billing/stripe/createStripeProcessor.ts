import { Stripe } from "stripe";
import { KINDS } from "../../records/owner.rules.ts";
import type { Kind } from "../../records/owner.rules.ts";
import type { AttemptOutcome } from "../sending/decideNextStep.rules.ts";
import { NOT_CALLED, ProcessorMismatchError, ProcessorUnavailableError } from "../processor.ts";
import type { MeterEvent, NewCheckout } from "../processor.ts";
import { createStripeClient, readStripeAccount } from "./createStripeClient.ts";
import type { StripeClientOptions } from "./createStripeClient.ts";
import { CUSTOMER_KEY, VALUE_KEY, findOrCreateMeters, sumUsage } from "./meters.ts";
import type { FoundMeter } from "./meters.ts";
import { createCheckout, listPaidCheckouts, readCheckout } from "./checkouts.ts";
import { createStripeInspector } from "./inspectStripe.ts";
import { readInvoices } from "./invoices.ts";
import { provisionDonations, readSubscriptionState } from "./subscriptions.ts";
import type { DonationPrices } from "./subscriptions.ts";
import { outcomeOfError, outcomeOfFailedCheck, outcomeOfResponse } from "./outcomeOfResponse.ts";
import { readRefusalReport } from "./readRefusalReport.ts";
import type { StripeAccount } from "../deployment.rules.ts";
import type { Span } from "../usage.rules.ts";

/** Begins a call without the stack trace that the SDK takes of each caller, which costs a sixth of a call's CPU time. */
const withoutStackTrace = <Result>(call: () => Promise<Result>): Promise<Result> => {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    return call();
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
};

export type StripeOptions = StripeClientOptions & {
  /** The prices of the donations' items. Null: donations cannot be provisioned. */
  readonly donationPrices?: DonationPrices | null;
};

/** Called with the key's account before calls that depend on it, until it resolves: with the cell whose meters are used. */
type RequireAccount = (account: StripeAccount) => Promise<string | null>;

/** Creates our meters, which are checked once for all calls. */
const createMeterCheck = (
  stripe: Stripe,
  { secretKey }: StripeOptions,
  requireAccount: RequireAccount,
) => {
  let meters: Promise<Record<Kind, FoundMeter>> | null = null;
  // First, because missing meters are created.
  const check = async (): Promise<Record<Kind, FoundMeter>> =>
    findOrCreateMeters(stripe, await requireAccount(await readStripeAccount(stripe, secretKey)));
  const forget = (): void => {
    meters = null;
  };
  /** Returns the meters, also those that cannot be used. */
  const findAll = (): Promise<Record<Kind, FoundMeter>> =>
    (meters ??= check().catch((error: unknown) => {
      forget();
      throw error;
    }));
  return {
    findAll,
    /** Throws a ProcessorMismatchError if that meter cannot be used. */
    find: async (kind: Kind): Promise<FoundMeter> => {
      const meter = (await findAll())[kind];
      if (meter.problem !== null) {
        forget();
        throw new ProcessorMismatchError(meter.problem);
      }
      return meter;
    },
    forget,
  };
};

const post = async (
  stripe: Stripe,
  { eventName }: FoundMeter,
  { identifier, quantity, second, keyGeneration }: MeterEvent,
  customerId: string,
): Promise<AttemptOutcome> => {
  try {
    const response = await withoutStackTrace(() =>
      stripe.billing.meterEvents.create(
        {
          event_name: eventName,
          payload: { [CUSTOMER_KEY]: customerId, [VALUE_KEY]: String(quantity) },
          identifier,
          timestamp: second,
        },
        { idempotencyKey: keyGeneration === 0 ? identifier : `${identifier}#${keyGeneration}` },
      ),
    );
    return outcomeOfResponse(response, identifier);
  } catch (error) {
    return outcomeOfError(error);
  }
};

/**
 * Creates the processor that bills usage at Stripe. Time spans are half-open and in unix seconds; quantities are whole
 * units. A read throws a ProcessorUnavailableError if Stripe does not answer.
 */
export const createStripeProcessor = (
  options: StripeOptions,
  requireAccount: RequireAccount = () => Promise.resolve(null),
) => {
  const { donationPrices = null } = options;
  const { stripe, boundTo } = createStripeClient(options);
  const meters = createMeterCheck(stripe, options, requireAccount);

  const call = <Result>(signal: AbortSignal, work: () => Promise<Result>): Promise<Result> =>
    boundTo(signal, work).catch((error: unknown) => {
      throw error instanceof Stripe.errors.StripeError &&
        !(error instanceof Stripe.errors.StripeInvalidRequestError)
        ? new ProcessorUnavailableError(error.message, { cause: error })
        : error;
    });

  return {
    /** Finds or creates our meters. Throws a ProcessorMismatchError if one of them counts differently than expected. */
    prepare: async (): Promise<void> => {
      for (const kind of KINDS) {
        await meters.find(kind);
      }
    },
    /**
     * Makes one attempt, without retries. Never throws because of Stripe's response.
     * @param mayCall asked immediately before the call: while the process was frozen, the usage may have been sealed again
     *   under another identifier
     */
    send: async (
      event: MeterEvent,
      signal: AbortSignal,
      mayCall = () => true,
    ): Promise<AttemptOutcome> => {
      const { customerId } = event;
      if (customerId === null) {
        return { kind: "rejected", reason: "The organization has no Stripe customer." };
      }
      return boundTo(signal, async () => {
        const meter = await meters.find(event.kind).catch(outcomeOfFailedCheck);
        if ("kind" in meter) {
          return meter;
        }
        if (signal.aborted || !mayCall()) {
          return NOT_CALLED;
        }
        const outcome = await post(stripe, meter, event, customerId);
        if (outcome.kind === "misconfigured") {
          // The operator's fix may change the meters.
          meters.forget();
        }
        return outcome;
      });
    },
    sumUsage: (customerId: string, kind: Kind, span: Span, signal: AbortSignal) =>
      call(signal, async () => sumUsage(stripe, (await meters.find(kind)).id, customerId, span)),
    readSubscription: (subscriptionId: string, signal: AbortSignal) =>
      call(signal, async () =>
        readSubscriptionState(stripe, subscriptionId, await meters.findAll(), donationPrices),
      ),
    readInvoices: (customerId: string, since: number, signal: AbortSignal) =>
      call(signal, async () => readInvoices(stripe, await meters.findAll(), customerId, since)),
    createCheckout: (checkout: NewCheckout, signal: AbortSignal) =>
      call(signal, async () => {
        // Requires the deployment's account.
        await meters.findAll();
        return createCheckout(stripe, checkout);
      }),
    readCheckout: (sessionId: string, signal: AbortSignal) =>
      call(signal, () => readCheckout(stripe, sessionId)),
    listPaidCheckouts: (deploymentId: string, since: number, signal: AbortSignal) =>
      call(signal, () => listPaidCheckouts(stripe, deploymentId, since)),
    readRefusalReport: (eventId: string, signal: AbortSignal) =>
      boundTo(signal, () => readRefusalReport(stripe, eventId)),
    provisionDonations: (subscriptionId: string, signal: AbortSignal) =>
      boundTo(signal, () => provisionDonations(stripe, subscriptionId, donationPrices)),
  };
};

export type BillingProcessor = ReturnType<typeof createStripeProcessor>;

export const connectStripe = (options: StripeOptions) => ({
  createProcessor: (requireAccount: RequireAccount) =>
    createStripeProcessor(options, requireAccount),
  ...createStripeInspector(options),
});

/** A key of Stripe. Programs import only its type, so that those that do not call Stripe do not load its library. */
export type StripeConnection = ReturnType<typeof connectStripe>;
