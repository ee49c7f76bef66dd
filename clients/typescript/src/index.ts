export { createImpactClient } from "./createImpactClient.ts";
export type {
  FollowOptions,
  ImpactClient,
  ImpactClientOptions,
  StandaloneSchemas,
} from "./createImpactClient.ts";
export { createStoreClient } from "./createStoreClient.ts";
export type { StoreClient, StoreClientOptions, StoreSchemas } from "./createStoreClient.ts";
export {
  ImpactApiError,
  ImpactConnectionError,
  ImpactError,
  ImpactTimeoutError,
  WebhookVerificationError,
} from "./errors.ts";
export { verifyWebhook } from "./verifyWebhook.ts";
export type { Webhook, WebhookHeaders, WebhookRequest } from "./verifyWebhook.ts";
export type { List, WriteOptions } from "./createMethods.ts";
export type { CallOptions, TransportOptions } from "./createTransport.ts";
