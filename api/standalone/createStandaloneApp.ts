import { createApp } from "../http/createApp.ts";
import type { App } from "../http/createApp.ts";
import { healthEndpoints } from "../health/healthEndpoints.ts";
import { authenticate, findCachedCaller } from "../middleware/authenticate.ts";
import { createDocument } from "../openapi/createDocument.ts";
import { documentFallback, documentPages } from "../openapi/documentPages.ts";
import type { StandaloneContext } from "../context.ts";
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

const WEBHOOKS: WebhookInterface = { accountType: "organization", prefix: "", keyError: KEY_ERROR };

/** Creates the app of the organizations' interface. */
export const createStandaloneApp = (context: StandaloneContext): App => {
  const { authenticator, plantingCallbackSecrets, readStripeWebhook } = context;
  const reading = { ...context, db: context.reads };
  const endpoints = [
    ...registrationEndpoints(context),
    ...batchEndpoints(context),
    ...charityEndpoints(context),
    ...donationBatchEndpoints(context),
    ...evidenceEndpoints(reading),
    ...usageEndpoints(reading),
    ...eventEndpoints(reading),
    ...webhookEndpoints(context, WEBHOOKS),
    ...deliveryEndpoints(context, WEBHOOKS),
    statsEndpoint(reading),
    ...dashboardEndpoints(context),
    ...(plantingCallbackSecrets === null
      ? []
      : [callbackEndpoint(context, plantingCallbackSecrets)]),
    ...healthEndpoints(context.readReadiness),
  ];
  const dashboards = dashboardPages(reading);
  const document = (): object =>
    createDocument(endpoints, {
      title: "Impact tracking service: standalone API",
      version: "2.0.0",
      description: DESCRIPTION,
      baseUrl: context.documentBaseUrl,
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
    ...context,
    checkKey: authenticate(authenticator),
    findCachedCaller: findCachedCaller(authenticator),
    keyHeaders: ["Authorization"],
    presentError,
    endpoints,
    pages: [...documentPages(document), ...dashboards.pages],
    findPublic: dashboards.findReady,
    webhooks: readStripeWebhook === null ? [] : [stripeWebhook(context, readStripeWebhook)],
    browserFallbacks: [documentFallback, dashboardFallback],
  });
};
