import type { ExecutionContext } from "ava";
import { createAuthenticator } from "../../modules/accounts/createAuthenticator.ts";
import { issueKey } from "../../modules/accounts/manageKeys.ts";
import type { ReadWebhook } from "../../modules/billing/stripe/createWebhookReader.ts";
import type { Mode } from "../../modules/records/owner.rules.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import type { DatabaseContext } from "../support/database.ts";
import type { BillingSetup } from "./billingSetup.ts";

/** Starts the API, and calls it as the setup's organization. Nothing is cached, so that a change is seen at once. */
export const startBilledApi = async (
  t: ExecutionContext<DatabaseContext>,
  { deps, stream }: Pick<BillingSetup, "deps" | "stream">,
  options: { readonly readStripeWebhook?: ReadWebhook } = {},
) => {
  const { db } = deps;
  const { url, call } = await startStandaloneApi(t, {
    ...deps,
    ...options,
    authenticator: (key) => createAuthenticator({ db })(key),
  });
  const owner = { id: stream.accountId, type: "organization" } as const;
  const keyOf = async (mode: Mode): Promise<string> => (await issueKey(deps, owner, mode)).key;
  const keys = { live: await keyOf("live"), test: await keyOf("test") };
  return {
    url,
    get: (path: string, mode: Mode = "live") => call("GET", path, { key: keys[mode] }),
    post: (path: string, body: object, mode: Mode = "live") =>
      call("POST", path, { key: keys[mode], body }),
  };
};
