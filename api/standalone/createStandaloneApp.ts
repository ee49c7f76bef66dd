import type Koa from "koa";
import { z } from "zod";
import type { ApiState } from "../http/apiContext.ts";
import { createApp } from "../http/createApp.ts";
import type { AppDependencies } from "../http/createApp.ts";
import { healthEndpoints } from "../health/healthEndpoints.ts";
import type { HealthChecks } from "../health/healthEndpoints.ts";
import type { Planting } from "../../providers/planting/createPlanting.ts";
import type { Authenticate } from "../../services/accounts/createAuthenticator.ts";
import type { ApiErrorCode } from "../../program/apiErrors.ts";
import { authenticate } from "../middleware/authenticate.ts";
import { createDocument } from "../openapi/createDocument.ts";
import { documentFallback, documentPages } from "../openapi/documentPages.ts";
import type { TakePermit } from "../../db/rateLimits.ts";
import { charityEndpoints } from "./charities/charityEndpoints.ts";
import { dashboardEndpoints } from "./dashboard/dashboardEndpoints.ts";
import { dashboardFallback, dashboardPages } from "./dashboard/dashboardPages.ts";
import { evidenceEndpoints } from "./planting/evidenceEndpoints.ts";
import { callbackEndpoint } from "./planting/callbackEndpoint.ts";
import { registrationEndpoints } from "./registrations/registrationEndpoints.ts";

const presentError = (_code: ApiErrorCode, message: string): z.output<typeof errorBody> => ({
  error: message,
});

const errorBody = z.strictObject({ error: z.string() }).meta({ id: "Error" });

const DESCRIPTION = `Records trees planted, ocean-bound plastic bottles rescued and charity donations for an
organization, bills trees and bottles, and takes them back. Each organization has a production and a test key; what one
records the other does not see, and the test key causes no charges. Dates and months are UTC.`;

/** The organizations' interface. */
export const createStandaloneApp = ({
  checks,
  authenticator,
  logger,
  observe,
  publicBaseUrl,
  ownAddress,
  plantingCallbackSecret,
  takePermit,
  ...dependencies
}: AppDependencies &
  Parameters<typeof registrationEndpoints>[0] &
  Parameters<typeof charityEndpoints>[0] & {
    readonly checks: HealthChecks;
    readonly authenticator: Authenticate;
    readonly takePermit: TakePermit;
    /** Where clients reach the interface; null when that is where they found its description. */
    readonly publicBaseUrl: string | null;
    /** The same for links in answers and pages, which must be whole. */
    readonly ownAddress: () => string;
    readonly planting: Planting;
    /** What the planting partner signs its reports with; null where it sends none. */
    readonly plantingCallbackSecret: string | null;
    /** Tells an order's workflow that facts have come. */
    readonly wakeOrder: (orderId: number) => Promise<void>;
  }): Koa<ApiState> => {
  const addressed = { ...dependencies, publicBaseUrl: ownAddress };
  const endpoints = [
    ...registrationEndpoints(dependencies),
    ...charityEndpoints(dependencies),
    ...evidenceEndpoints(addressed),
    ...dashboardEndpoints(addressed),
    ...(plantingCallbackSecret === null
      ? []
      : [callbackEndpoint({ ...dependencies, secret: plantingCallbackSecret })]),
    ...healthEndpoints(checks),
  ];
  const document = createDocument(endpoints, {
    title: "Impact tracking service: standalone API",
    version: "2.0.0",
    description: DESCRIPTION,
    baseUrl: publicBaseUrl ?? ".",
    securitySchemes: {
      apiKey: {
        header: "Authorization",
        description: "The API key as it is, without a `Bearer ` prefix.",
      },
    },
    security: [["apiKey"]],
    errorBody,
    presentError,
  });
  return createApp({
    logger,
    observe,
    checkKey: authenticate(authenticator),
    takePermit,
    presentError,
    endpoints,
    pages: [...documentPages(document), ...dashboardPages(addressed)],
    browserFallbacks: [documentFallback, dashboardFallback],
  });
};
