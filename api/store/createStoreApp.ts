import type { DatabasePool } from "slonik";
import { KINDS } from "../../domain/accounts/accounts.ts";
import type { WebhookSettings } from "../../domain/webhooks/webhookEndpoints.ts";
import type { AuthenticateStore } from "../../services/stores/createStoreAuthenticator.ts";
import { createAccountQueue } from "../../services/batching/createAccountQueue.ts";
import type { EvidenceContext } from "../../services/planting/context.ts";
import type { StoreContext } from "../../services/stores/context.ts";
import type { CharityContext } from "../../services/charities/context.ts";
import { healthEndpoints } from "../health/healthEndpoints.ts";
import type { Readiness } from "../../program/server/watchHealth.ts";
import { createApp } from "../http/createApp.ts";
import type { App, AppDependencies } from "../http/createApp.ts";
import type { Streaming } from "../http/lists/listEndpoints.ts";
import { createDocument } from "../openapi/createDocument.ts";
import { documentFallback, documentPages } from "../openapi/documentPages.ts";
import { deliveryEndpoints } from "../webhooks/deliveryEndpoints.ts";
import { webhookEndpoints } from "../webhooks/webhookEndpoints.ts";
import type { WebhookInterface } from "../webhooks/webhookInterface.ts";
import { authenticateStore, STORE_KEY_HEADERS } from "./accounts/authenticateStore.ts";
import { certificateEndpoints } from "./dashboard/certificateEndpoints.ts";
import { balanceEndpoint } from "./stores/balanceEndpoint.ts";
import { donateEndpoint } from "./charities/donateEndpoint.ts";
import { donationListEndpoint } from "./charities/donationListEndpoint.ts";
import { searchEndpoint } from "./charities/searchEndpoint.ts";
import { errorBody, KEY_ERROR, presentStoreError } from "./errors.ts";
import { evidenceEndpoint } from "./planting/evidenceEndpoint.ts";
import { listEndpoint } from "./registrations/listEndpoint.ts";
import { platformWebhook } from "./privacy/platformWebhook.ts";
import { refundEndpoint } from "./registrations/refundEndpoint.ts";
import type { RegisterDependencies } from "./registrations/registerEndpoint.ts";
import { registerEndpoint } from "./registrations/registerEndpoint.ts";
import { statsEndpoint } from "./registrations/statsEndpoint.ts";
import { verifyEndpoint } from "./accounts/verifyEndpoint.ts";

const DESCRIPTION = `Plants trees, rescues plastic bottles and donates for the customers and orders of an online store,
paid from a prepaid balance. Each store has production and test keys: records made with one are not visible to the other,
and test keys spend nothing. Days are in UTC.`;

type StoreAppDependencies = RegisterDependencies &
  Omit<StoreContext, "writeQueue"> &
  CharityContext &
  EvidenceContext & {
    readonly app: AppDependencies;
    /** Connections for reads that may be slow. */
    readonly reads: DatabasePool;
    readonly readReadiness: () => Readiness;
    readonly streaming: Streaming;
    readonly authenticator: AuthenticateStore;
    /** Where deliveries to webhook endpoints may be sent. */
    readonly webhookSettings: WebhookSettings;
    /** With which the platform signs its privacy requests; null rejects the path as unknown. */
    readonly platformSecrets: (() => readonly string[]) | null;
  };

const WEBHOOKS: WebhookInterface = {
  accountType: "store",
  prefix: "/app/api",
  keyError: KEY_ERROR,
};

/** Creates the app of the store-platform interface. */
export const createStoreApp = ({
  app,
  readReadiness,
  authenticator,
  platformSecrets,
  reads,
  ...dependencies
}: StoreAppDependencies): App => {
  const writeQueue = createAccountQueue();
  const reading = { ...dependencies, db: reads };
  const endpoints = [
    verifyEndpoint(dependencies),
    ...KINDS.flatMap((kind) => [registerEndpoint(kind, dependencies), listEndpoint(kind, reading)]),
    searchEndpoint(dependencies),
    donateEndpoint({ ...dependencies, writeQueue }),
    donationListEndpoint(reading),
    statsEndpoint(reading),
    refundEndpoint({ ...dependencies, writeQueue }),
    evidenceEndpoint(reading),
    balanceEndpoint(reading),
    ...certificateEndpoints(dependencies),
    ...webhookEndpoints(dependencies, WEBHOOKS),
    ...deliveryEndpoints({ ...dependencies, reads, publicBaseUrl: null }, WEBHOOKS),
    ...healthEndpoints(readReadiness),
  ];
  const document = (): object =>
    createDocument(endpoints, {
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
      presentError: presentStoreError,
    });
  return createApp({
    ...app,
    checkKey: authenticateStore(authenticator),
    keyHeaders: STORE_KEY_HEADERS,
    presentError: presentStoreError,
    endpoints,
    pages: documentPages(document),
    webhooks:
      platformSecrets === null
        ? []
        : [platformWebhook({ ...dependencies, readSecrets: platformSecrets })],
    browserFallbacks: [documentFallback],
  });
};
