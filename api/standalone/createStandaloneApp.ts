import { createApp } from "../http/createApp.ts";
import type { App, Page } from "../http/createApp.ts";
import { healthPages } from "../http/healthPages.ts";
import { authenticate } from "../http/authenticate.ts";
import { createDocument } from "../openapi/createDocument.ts";
import { documentPages } from "../openapi/documentPages.ts";
import { createRefundWriter } from "../../modules/registrations/refundRegistration.ts";
import type { StandaloneContext } from "../context.ts";
import { stripeWebhook } from "./stripeWebhook.ts";
import { charityEndpoints } from "./charityEndpoints.ts";
import { dashboardEndpoints } from "./dashboardEndpoints.ts";
import { dashboardPages } from "./dashboardPages.ts";
import { errorBody, presentError } from "./standaloneErrors.ts";
import { statsEndpoint } from "./statsEndpoint.ts";
import { eventEndpoints } from "./eventEndpoints.ts";
import { evidenceEndpoints } from "./evidenceEndpoints.ts";
import { plantingWebhook } from "./plantingWebhook.ts";
import { registrationEndpoints } from "./registrationEndpoints.ts";
import { usageEndpoints } from "./usageEndpoints.ts";
import { webhookEndpoints } from "../endpoints/webhookEndpoints.ts";

const DESCRIPTION = `Records trees planted, ocean-bound plastic bottles rescued and charity donations for an
organization. Trees and bottles are billed and can be refunded. Each organization has a production key and a test key;
records made with one are not visible to the other, and the test key causes no charges. Dates and months are in UTC.`;

/** Creates the app of the organizations' interface; a demo adds its own pages. */
export const createStandaloneApp = (
  context: StandaloneContext,
  demo: readonly Page[] = [],
): App => {
  const { authenticator, plantingCallbackSecrets, readStripeWebhook } = context;
  const endpoints = [
    ...registrationEndpoints({ ...context, refunds: createRefundWriter(context) }),
    ...charityEndpoints(context),
    ...evidenceEndpoints(context),
    ...usageEndpoints(context),
    ...eventEndpoints(context),
    ...webhookEndpoints(context, { accountType: "organization", prefix: "" }),
    statsEndpoint({ ...context, db: context.reads }),
    ...dashboardEndpoints(context),
  ];
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
      keyErrors: { key_invalid: "The key is missing or invalid." },
    });
  return createApp({
    ...context,
    checkKey: authenticate(authenticator),
    keyHeaders: ["Authorization"],
    presentError,
    endpoints,
    pages: [
      ...demo,
      ...healthPages(context.readReadiness),
      ...documentPages(document),
      ...dashboardPages(context),
    ],
    webhooks: [
      ...(readStripeWebhook === null ? [] : [stripeWebhook(context, readStripeWebhook)]),
      ...(plantingCallbackSecrets === null
        ? []
        : [plantingWebhook(context, plantingCallbackSecrets)]),
    ],
  });
};
