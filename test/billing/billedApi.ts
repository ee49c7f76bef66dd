import type { ExecutionContext } from "ava";
import { createAuthenticator } from "../../modules/accounts/createAuthenticator.ts";
import { issueKey } from "../../modules/accounts/manageKeys.ts";
import { processProcessorEvents } from "../../modules/billing/processorEvents/processProcessorEvents.ts";
import type { FailedProcessorEvent } from "../../modules/billing/processorEvents/processProcessorEvents.ts";
import { createWebhookReader } from "../../modules/billing/stripe/createWebhookReader.ts";
import type { Mode } from "../../modules/records/owner.rules.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import type { DatabaseContext } from "../support/database.ts";
import type { BillingSetup } from "./billingSetup.ts";

export const WEBHOOK_SECRET = "whsec_of_the_tests";

/** Starts the API, and calls it as the setup's organization. Nothing is cached, so that a change is seen at once. */
export const startBilledApi = async (
  t: ExecutionContext<DatabaseContext>,
  { deps, stream, double }: Pick<BillingSetup, "deps" | "stream" | "double">,
  secrets = [WEBHOOK_SECRET],
) => {
  const { db } = deps;
  const { url, call, logged } = await startStandaloneApi(t, {
    ...deps,
    readStripeWebhook: createWebhookReader(secrets),
    authenticator: (key) => createAuthenticator({ db })(key),
  });
  const owner = { id: stream.accountId, type: "organization" } as const;
  const keyOf = async (mode: Mode): Promise<string> => (await issueKey(deps, owner, mode)).key;
  const keys = { live: await keyOf("live"), test: await keyOf("test") };
  const webhookUrl = `${url}/webhooks/stripe`;
  double.control.setWebhook({ url: webhookUrl, secret: WEBHOOK_SECRET });
  const failed: FailedProcessorEvent[] = [];
  const delayed: FailedProcessorEvent[] = [];
  return {
    webhookUrl,
    logged,
    /** Processes the due events of Stripe, as a worker does. */
    process: () =>
      processProcessorEvents(
        {
          ...deps,
          observeFailedEvent: (event) => failed.push(event),
          observeDelayedEvent: (event) => delayed.push(event),
          creditCheckout: () => Promise.resolve(),
        },
        new AbortController().signal,
      ),
    failed,
    delayed,
    get: (path: string, mode: Mode = "live") => call("GET", path, { key: keys[mode] }),
    post: (path: string, body: object, mode: Mode = "live") =>
      call("POST", path, { key: keys[mode], body }),
  };
};
