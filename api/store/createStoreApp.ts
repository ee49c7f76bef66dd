import { KINDS } from "../../modules/records/owner.rules.ts";
import { createApp } from "../http/createApp.ts";
import type { App } from "../http/createApp.ts";
import {
  certificateUrlEndpoint,
  orderCertificateUrlEndpoint,
} from "../endpoints/certificateEndpoints.ts";
import { webhookEndpoints } from "../endpoints/webhookEndpoints.ts";
import type { AppContext } from "../context.ts";
import { authenticateStore, STORE_KEY_HEADERS } from "./authenticateStore.ts";
import { donationListEndpoint, storeListEndpoint } from "./storeListEndpoints.ts";
import { errorBody, KEY_ERRORS, presentStoreError } from "./storeErrors.ts";
import { evidenceEndpoint } from "./evidenceEndpoint.ts";
import { platformWebhook } from "./platformWebhook.ts";
import { balanceEndpoint, statsEndpoint, verifyEndpoint } from "./readEndpoints.ts";
import {
  donateEndpoint,
  refundEndpoint,
  registerEndpoint,
  topUpEndpoint,
} from "./writeEndpoints.ts";
import { charitySearchEndpoint } from "../endpoints/charities.ts";

const DESCRIPTION = `Plants trees, rescues plastic bottles and donates for the customers and orders of an online store,
paid from a prepaid balance. Each store has production and test keys: records made with one are not visible to the other,
and test keys spend nothing. Days are in UTC.`;

export const createStoreApp = (context: AppContext): App => {
  const { platformSecrets } = context;
  const endpoints = [
    verifyEndpoint(context),
    ...KINDS.flatMap((kind) => [registerEndpoint(kind, context), storeListEndpoint(kind, context)]),
    charitySearchEndpoint(context, "/app/api/charity/search", {
      tag: "donations",
      details:
        "The nonprofit_id and the ein of a result are accepted as the charity_id of a donation.",
    }),
    donateEndpoint(context),
    donationListEndpoint(context),
    statsEndpoint(context),
    refundEndpoint(context),
    evidenceEndpoint(context),
    balanceEndpoint(context),
    topUpEndpoint(context),
    certificateUrlEndpoint(context, "/app/api/certificate_url", {
      tag: "impact",
      accountType: "store",
    }),
    orderCertificateUrlEndpoint(context),
    ...webhookEndpoints(context, { accountType: "store", prefix: "/app/api" }),
  ];
  return createApp({
    ...context,
    checkKey: authenticateStore(context),
    keyHeaders: STORE_KEY_HEADERS,
    presentError: presentStoreError,
    endpoints,
    document: {
      title: "Impact tracking service: store-platform API",
      version: "1.0.0",
      description: DESCRIPTION,
      baseUrl: "/",
      securitySchemes: {
        apiKey: {
          header: "api_key",
          description: "The store's key, `PROD-…` or `TEST-…`. `api-key` means the same.",
        },
        shopName: {
          header: "shop_name",
          description: "The store's domain. `shop-name` means the same.",
        },
        userId: {
          header: "user_id",
          description: "The store's user id; overrides shop_name. `user-id` means the same.",
        },
      },
      security: [
        ["apiKey", "shopName"],
        ["apiKey", "userId"],
      ],
      errorBody,
      keyErrors: KEY_ERRORS,
    },
    pages: platformSecrets === null ? [] : [platformWebhook(context, platformSecrets)],
  });
};
