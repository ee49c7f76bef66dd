import { createApp } from "../http/createApp.ts";
import type { App } from "../http/createApp.ts";
import type { Page, RequestContext } from "../http/requestContext.ts";
import type { Caller } from "../../modules/accounts/apiKeys.sql.ts";
import { createRefundWriter } from "../../modules/registrations/refundRegistration.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import type { AppContext } from "../context.ts";
import { charityEndpoints } from "./charityEndpoints.ts";
import { dashboardEndpoints } from "./dashboardEndpoints.ts";
import { picturePages } from "./picturePages.ts";
import { publicPages } from "./publicPages.ts";
import { errorBody, presentError } from "./standaloneErrors.ts";
import { statsEndpoint } from "./statsEndpoint.ts";
import { eventsEndpoint } from "./eventsEndpoint.ts";
import { evidenceEndpoints } from "./evidenceEndpoints.ts";
import { signedWebhooks } from "./signedWebhooks.ts";
import { registrationEndpoints } from "./registrationEndpoints.ts";
import { usageEndpoints } from "./usageEndpoints.ts";
import { webhookEndpoints } from "../endpoints/webhookEndpoints.ts";

const DESCRIPTION = `Records trees planted, ocean-bound plastic bottles rescued and charity donations for an
organization. Trees and bottles are billed and can be refunded. Each organization has a production key and a test key;
records made with one are not visible to the other, and the test key causes no charges. Dates and months are in UTC.`;

export const createStandaloneApp = (context: AppContext, demo: readonly Page[] = []): App => {
  const endpoints = [
    ...registrationEndpoints({ ...context, refunds: createRefundWriter(context) }),
    ...charityEndpoints(context),
    ...evidenceEndpoints(context),
    ...usageEndpoints(context),
    eventsEndpoint(context),
    ...webhookEndpoints(context, { accountType: "organization", prefix: "" }),
    statsEndpoint(context),
    ...dashboardEndpoints(context),
  ];
  const checkKey = async ({ req: { headers } }: RequestContext): Promise<Caller> => {
    const { authorization: key = "" } = headers;
    const caller = key === "" ? null : await context.authenticator(key);
    if (caller?.accountType !== "organization") {
      throw new DomainError("key_invalid", "invalid API key");
    }
    return caller;
  };
  return createApp({
    ...context,
    checkKey,
    keyHeaders: ["Authorization"],
    presentError,
    endpoints,
    document: {
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
      keyErrors: ["key_invalid"],
    },
    pages: [
      ...demo,
      ...picturePages(context.db),
      ...publicPages(context),
      ...signedWebhooks(context),
    ],
  });
};
