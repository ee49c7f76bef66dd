import type { ExecutionContext } from "ava";
import { pino } from "pino";
import type { DatabasePool } from "slonik";
import { createStandaloneApp } from "../../api/standalone/createStandaloneApp.ts";
import type { Page } from "../../api/http/createApp.ts";
import type { Listener } from "../../runtime/server/openDoor.ts";
import type { Readiness } from "../../runtime/server/watchHealth.ts";
import type { Clock } from "../../runtime/clock.ts";
import type { CreatedOrganization } from "../../modules/accounts/createOrganization.ts";
import type { WebhookSettings } from "../../modules/events/webhooks.rules.ts";
import { systemClock } from "../../runtime/clock.ts";
import type { Billing } from "../../modules/billing/createBilling.ts";
import type { ReadWebhook } from "../../modules/billing/stripe/createWebhookReader.ts";
import type { Charities } from "../../modules/charities/createCharities.ts";
import { createCharities } from "../../modules/charities/createCharities.ts";
import { createBilling } from "../../modules/billing/createBilling.ts";
import { createListGate } from "../../api/http/requestTurns.ts";
import type { Gate } from "../../runtime/gate.ts";
import { createDeploymentName } from "../../modules/billing/holdUsage.ts";
import { createAuthenticator } from "../../modules/accounts/createAuthenticator.ts";
import type { Authenticate } from "../../modules/accounts/createAuthenticator.ts";
import { createRegistrationWriter } from "../../modules/registrations/createRegistrationWriter.ts";
import type { RegistrationWriter } from "../../modules/registrations/createRegistrationWriter.ts";
import type { Planting } from "../../modules/planting/createPlanting.ts";
import type { ValidateCharity } from "../../modules/charities/context.ts";
import type { DatabaseContext } from "../support/database.ts";
import { CATALOGUE_ONLY, createTestOrganization } from "../support/factories.ts";
import { createTestPlanting } from "../support/planting.ts";
import { TEMPORAL_ADDRESS } from "../support/programs.ts";
import { READY } from "../support/readiness.ts";
import { serve } from "../support/server.ts";
import { takePermit } from "../../db/rateLimits.ts";
import { temporalAt, validateThrough } from "../support/temporalOnDemand.ts";
import type { OpenTemporal } from "../support/temporalOnDemand.ts";
import { createCaller, parseBody, readResponseChecker } from "./responseChecker.ts";
import type { CheckedResponse, ResponseText } from "./responseChecker.ts";

export type ApiResponse = CheckedResponse;

export type Call = (
  method: string,
  path: string,
  options?: {
    readonly key?: string;
    /** Sent as JSON; strings and buffers are sent unchanged. */
    readonly body?: unknown;
    readonly headers?: Readonly<Record<string, string>>;
  },
) => Promise<ApiResponse>;

export type Api = {
  readonly url: string;
  readonly call: Call;
  /** Checks a response against the API description. */
  readonly checkResponse: (response: ResponseText) => void;
  /** Returns the lines of the log, parsed. */
  readonly logged: () => readonly Record<string, unknown>[];
  /** Returns how many requests the app has received. */
  readonly appRequests: () => number;
};

export type StandaloneApiOptions = {
  readonly db: DatabasePool;
  readonly reads?: DatabasePool;
  readonly listGate?: Gate;
  readonly writeTimeoutMs?: number;
  readonly pageSearchMs?: number;
  readonly bulkLists?: DatabasePool;
  readonly clock?: Clock;
  readonly authenticator?: Authenticate;
  readonly writer?: RegistrationWriter;
  readonly openTemporal?: OpenTemporal;
  readonly readReadiness?: () => Readiness;
  readonly billing?: Billing;
  readonly charities?: Charities;
  readonly validateCharity?: ValidateCharity;
  /** The window of the rate limits, one second in production. The default is too short for a test to reach a limit. */
  readonly rateWindowMs?: number;
  readonly planting?: Planting;
  readonly publicBaseUrl?: string | null;
  readonly plantingCallbackSecrets?: readonly string[];
  readonly readStripeWebhook?: ReadWebhook | null;
  readonly trustedProxies?: number;
  readonly webhookSettings?: WebhookSettings;
  readonly demo?: readonly Page[];
};

/** Serves the standalone interface on a real port with a real database until the test ends. */
export const startStandaloneApi = async (
  t: ExecutionContext,
  {
    db,
    reads = db,
    listGate = createListGate(),
    writeTimeoutMs = 60_000,
    pageSearchMs = 60_000,
    bulkLists = reads,
    clock = systemClock,
    authenticator = createAuthenticator({ db, clock, accountType: "organization" }),
    writer = createRegistrationWriter({ db, clock }),
    openTemporal = temporalAt(TEMPORAL_ADDRESS),
    readReadiness = () => READY,
    billing = createBilling({ db, stripe: null }),
    charities = createCharities({
      db,
      clock,
      settings: CATALOGUE_ONLY,
    }),
    validateCharity,
    rateWindowMs = 0,
    planting = createTestPlanting(),
    publicBaseUrl = null,
    plantingCallbackSecrets = [],
    readStripeWebhook = null,
    trustedProxies = 0,
    webhookSettings = { allowsHttp: true, allowedNetworks: ["127.0.0.0/8"] },
    demo,
  }: StandaloneApiOptions,
): Promise<Api> => {
  const lines: string[] = [];
  const getDeployment = await createDeploymentName({ db, clock });
  const own = { url: "" };
  const documentBaseUrl = publicBaseUrl ?? "/";
  const app = createStandaloneApp(
    {
      logger: pino({ level: "debug" }, { write: (line: string) => lines.push(line) }),
      observe: () => undefined,
      takePermit: (bucket, limit) => takePermit(db, bucket, { ...limit, windowMs: rateWindowMs }),
      trustedProxies,
      db,
      reads,
      lists: reads,
      bulkReads: reads,
      bulkLists,
      streaming: { gate: listGate, writeTimeoutMs, pageSearchMs },
      clock,
      writer,
      authenticator,
      readReadiness,
      billing,
      charities,
      validateCharity: validateCharity ?? validateThrough(openTemporal, getDeployment),
      publicBaseUrl: () => publicBaseUrl ?? own.url,
      documentBaseUrl,
      planting,
      plantingCallbackSecrets:
        plantingCallbackSecrets.length === 0 ? null : plantingCallbackSecrets,
      readStripeWebhook,
      webhookSettings,
    },
    demo,
  );
  let appRequests = 0;
  const callback = (): Listener => {
    const listener = app.callback();
    return (request, response) => {
      appRequests += 1;
      return listener(request, response);
    };
  };
  const url = await serve(t, { callback });
  own.url = url;
  const checkResponse = await readResponseChecker(
    url,
    JSON.stringify(["standalone", documentBaseUrl]),
  );
  const send = createCaller(t, url, checkResponse);
  const call: Call = (method, path, { key, body, headers = {} } = {}) =>
    send(method, path, { ...(key !== undefined && { Authorization: key }), ...headers }, body);
  return {
    url,
    call,
    checkResponse: (response) => checkResponse(t, response),
    logged: () => lines.map((line) => parseBody(line)),
    appRequests: () => appRequests,
  };
};

/** Serves the standalone interface for a new organization. */
export const startApiOf = async (
  t: ExecutionContext<Pick<DatabaseContext, "db">>,
  {
    organization,
    db = t.context.db,
    ...options
  }: Partial<StandaloneApiOptions> & {
    readonly organization?: Parameters<typeof createTestOrganization>[1];
  } = {},
): Promise<Api & CreatedOrganization & { readonly key: string }> => {
  const api = await startStandaloneApi(t, { db, ...options });
  const created = await createTestOrganization(db, organization);
  return { ...api, ...created, key: created.apiKeyProd };
};
