import type { DatabasePool } from "slonik";
import type { CopyPool } from "../../db/pools/copyPool.ts";
import type { Clock } from "../../domain/clock.ts";
import type { WebhookSettings } from "../../domain/webhooks/webhookEndpoints.ts";
import type { Billing } from "../../providers/billing/createBilling.ts";
import type { Charities } from "../../providers/charities/createCharities.ts";
import type { RetryGuard } from "../../services/registrations/createRetryGuard.ts";
import type { RegistrationWriter } from "../../services/registrations/createRegistrationWriter.ts";
import type { ValidateCharity } from "../../services/charities/context.ts";
import { createApp } from "../http/createApp.ts";
import type { App, AppDependencies } from "../http/createApp.ts";
import type { Streaming } from "../http/lists/listEndpoints.ts";
import { healthEndpoints } from "../health/healthEndpoints.ts";
import type { Readiness } from "../../program/server/watchHealth.ts";
import type { Planting } from "../../providers/planting/createPlanting.ts";
import type { Authenticate } from "../../services/accounts/createAuthenticator.ts";
import { authenticate, findCachedCaller } from "../middleware/authenticate.ts";
import { createDocument } from "../openapi/createDocument.ts";
import { documentFallback, documentPages } from "../openapi/documentPages.ts";
import type { ReadWebhook } from "../../providers/billing/stripe/createWebhookReader.ts";
import { stripeWebhook } from "./billing/stripeWebhook.ts";
import { charityEndpoints } from "./charities/charityEndpoints.ts";
import { dashboardEndpoints } from "./dashboard/dashboardEndpoints.ts";
import { dashboardFallback, dashboardPages } from "./dashboard/dashboardPages.ts";
import { errorBody, presentError } from "./errorBody.ts";
import { KEY_ERROR } from "./errorResponses.ts";
import { statsEndpoint } from "./dashboard/statsEndpoint.ts";
import { eventEndpoints } from "./events/eventEndpoints.ts";
import { evidenceEndpoints } from "./planting/evidenceEndpoints.ts";
import { callbackEndpoint } from "./planting/callbackEndpoint.ts";
import { batchEndpoints } from "./registrations/batchEndpoints.ts";
import { registrationEndpoints } from "./registrations/registrationEndpoints.ts";
import { usageEndpoints } from "./registrations/usageEndpoints.ts";
import { donationBatchEndpoints } from "./charities/donationBatchEndpoints.ts";
import { deliveryEndpoints } from "../webhooks/deliveryEndpoints.ts";
import { webhookEndpoints } from "../webhooks/webhookEndpoints.ts";
import type { WebhookInterface } from "../webhooks/webhookInterface.ts";

const DESCRIPTION = `Records trees planted, ocean-bound plastic bottles rescued and charity donations for an
organization. Trees and bottles are billed and can be refunded. Each organization has a production key and a test key;
records made with one are not visible to the other, and the test key causes no charges. Dates and months are in UTC.`;

type StandaloneDependencies = {
  readonly app: AppDependencies;
  readonly db: DatabasePool;
  /** Connections for reads that may be slow. */
  readonly reads: DatabasePool;
  readonly copies: CopyPool;
  readonly clock: Clock;
  readonly billing: Billing;
  readonly charities: Charities;
  readonly planting: Planting;
  readonly writer: RegistrationWriter;
  readonly guard: RetryGuard;
  readonly readReadiness: () => Readiness;
  readonly streaming: Streaming;
  readonly authenticator: Authenticate;
  readonly validateCharity: ValidateCharity;
  /** Signals an order's workflow that the partner has reported facts. */
  readonly wakeOrder: (orderId: number) => Promise<void>;
  /** The base URL of links in responses and pages. */
  readonly publicBaseUrl: () => string;
  /** The base URL in the API description; `/` if the program does not know its public URL. */
  readonly documentBaseUrl: string;
  /** The secrets that the planting partner may sign its reports with; null if it sends none. */
  readonly plantingCallbackSecrets: (() => readonly string[]) | null;
  /** Where deliveries to webhook endpoints may be sent. */
  readonly webhookSettings: WebhookSettings;
  /** Verifies Stripe's webhooks; null if there is no signing secret. */
  readonly readStripeWebhook: ReadWebhook | null;
};

const WEBHOOKS: WebhookInterface = { accountType: "organization", prefix: "", keyError: KEY_ERROR };

/** Creates the app of the organizations' interface. */
export const createStandaloneApp = ({
  app,
  readReadiness,
  authenticator,
  documentBaseUrl,
  plantingCallbackSecrets,
  readStripeWebhook,
  ...dependencies
}: StandaloneDependencies): App => {
  const { logger, tracing } = app;
  const reading = { ...dependencies, db: dependencies.reads };
  const endpoints = [
    ...registrationEndpoints({ ...dependencies, tracing }),
    ...batchEndpoints({ ...dependencies, tracing }),
    ...charityEndpoints(dependencies),
    ...donationBatchEndpoints(dependencies),
    ...evidenceEndpoints(reading),
    ...usageEndpoints(reading),
    ...eventEndpoints(reading),
    ...webhookEndpoints(dependencies, WEBHOOKS),
    ...deliveryEndpoints(dependencies, WEBHOOKS),
    statsEndpoint(reading),
    ...dashboardEndpoints(dependencies),
    ...(plantingCallbackSecrets === null
      ? []
      : [callbackEndpoint({ ...dependencies, readSecrets: plantingCallbackSecrets })]),
    ...healthEndpoints(readReadiness),
  ];
  const dashboards = dashboardPages(reading);
  const document = (): object =>
    createDocument(endpoints, {
      title: "Impact tracking service: standalone API",
      version: "2.0.0",
      description: DESCRIPTION,
      baseUrl: documentBaseUrl,
      securitySchemes: {
        apiKey: {
          header: "Authorization",
          description: "The API key as it is, without a prefix such as `Bearer `.",
        },
      },
      security: [["apiKey"]],
      errorBody,
      presentError,
    });
  return createApp({
    ...app,
    checkKey: authenticate(authenticator),
    findCachedCaller: findCachedCaller(authenticator),
    keyHeaders: ["Authorization"],
    presentError,
    endpoints,
    pages: [...documentPages(document), ...dashboards.pages],
    findPublic: dashboards.findReady,
    webhooks:
      readStripeWebhook === null
        ? []
        : [stripeWebhook({ ...dependencies, logger, readWebhook: readStripeWebhook })],
    browserFallbacks: [documentFallback, dashboardFallback],
  });
};
