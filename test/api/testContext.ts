import { pino } from "pino";
import type { DatabasePool } from "slonik";
import type { AppContext } from "../../api/context.ts";
import { createListGate } from "../../api/http/listEndpoints.ts";
import type { Streaming } from "../../api/http/listEndpoints.ts";
import { takePermit } from "../../db/rateLimits.ts";
import { createAuthenticator } from "../../modules/accounts/createAuthenticator.ts";
import { createBilling } from "../../modules/billing/createBilling.ts";
import { createCharities } from "../../modules/charities/createCharities.ts";
import { createRegistrationWriter } from "../../modules/registrations/createRegistrationWriter.ts";
import { createStoreWriter } from "../../modules/stores/createStoreWriter.ts";
import type { Gate } from "../../runtime/gate.ts";
import { systemClock } from "../../runtime/clock.ts";
import { createTestPlanting } from "../support/planting.ts";
import type { Readiness } from "../../runtime/server/watchHealth.ts";
import { unreachableTemporal, validateThrough } from "../support/temporalOnDemand.ts";

/** The readiness of a process whose services all respond. */
export const READY: Readiness = { status: "ok", database: "ok", clock: "ok", temporal: "ok" };

/** What a test may replace of what an interface uses. */
export type TestContextOptions = Partial<
  Omit<AppContext, "publicBaseUrl" | "documentBaseUrl" | "streaming" | "takePermit"> &
    Omit<Streaming, "gate">
> & {
  readonly db: DatabasePool;
  readonly listGate?: Gate;
  /** The window of the rate limits, one second in production. The default is too short for a test to reach a limit. */
  readonly rateWindowMs?: number;
};

/**
 * Creates what both interfaces use at a public URL. By default, Temporal cannot be reached, and the only charities are the
 * catalogue's.
 */
export const createTestContext = (
  publicBaseUrl: () => string,
  {
    db,
    listGate = createListGate(),
    rateWindowMs = 0,
    writeTimeoutMs = 60_000,
    pageSearchMs = 60_000,
    ...given
  }: TestContextOptions,
): AppContext => {
  const { clock = systemClock, reads = db } = given;
  return {
    db,
    clock,
    reads,
    lists: reads,
    bulkLists: reads,
    logger: pino({ level: "silent" }),
    observe: () => undefined,
    takePermit: (bucket, limit) => takePermit(db, bucket, { ...limit, windowMs: rateWindowMs }),
    trustedProxies: 0,
    isTraced: false,
    readReadiness: () => READY,
    streaming: { gate: listGate, writeTimeoutMs, pageSearchMs },
    authenticator: createAuthenticator({ db, clock }),
    writer: createRegistrationWriter({ db, clock }),
    storeWriter: createStoreWriter({ db, clock }),
    billing: createBilling({ db, stripe: null }),
    charities: createCharities({ db, clock, config: {} }),
    validateCharity: validateThrough(unreachableTemporal, () => Promise.resolve("test")),
    planting: createTestPlanting(),
    webhookSettings: { allowsHttp: true, allowedNetworks: ["127.0.0.0/8"] },
    plantingCallbackSecrets: null,
    platformSecrets: null,
    readStripeWebhook: null,
    publicBaseUrl,
    documentBaseUrl: "/",
    ...given,
  };
};
