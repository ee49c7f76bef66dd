import { z } from "zod";
import { readPlatformRequest } from "../../modules/accounts/auditEntries.sql.ts";
import { listStoresNamed } from "../../modules/stores/stores.sql.ts";
import type { Store } from "../../modules/stores/stores.sql.ts";
import { DAY_MS } from "../../runtime/durations.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { blankAsNull, shortText } from "../../modules/records/fields.rules.ts";
import { mustBeOneOf } from "../../runtime/describeIssues.rules.ts";
import { identifyCustomer } from "../../modules/stores/customers.rules.ts";
import type { CustomerIdentity } from "../../modules/stores/customers.rules.ts";
import { normalizeDomain } from "../../modules/stores/stores.rules.ts";
import { exportCustomer, forgetCustomer } from "../../modules/stores/customerData.ts";
import type { Context } from "../../runtime/context.ts";
import type { Page, RequestContext } from "../http/requestContext.ts";
import { HttpError } from "../http/httpError.ts";
import { parseRequest } from "../http/parseRequest.ts";
import { parseSignedJson, readRawBody } from "../http/readBody.ts";
import { isSignedByPlatform } from "../http/signatures.ts";

/** A request names at most some thousand orders. */
const LIMIT_KIB = 256;

/** The platform repeats a request for two days. */
const REPEATABLE_MS = 3 * DAY_MS;

const TOPICS = ["customers/data_request", "customers/redact", "shop/redact"] as const;
const topic = z.enum(TOPICS, { error: mustBeOneOf(TOPICS) });

const identifier = z.union([shortText(), z.int().transform(String)]);
const orders = z.array(identifier).max(5000).default([]);
const customer = z.object({ id: identifier.nullish(), email: identifier.nullish() }).nullish();
const foreign = z.never({ error: "must not be given for this topic" }).optional();

const anyRequest = z.object({
  shop_domain: z.string().max(500),
  customer,
  orders_requested: orders,
  orders_to_redact: orders,
});

/**
 * The fields of Shopify's privacy webhooks that matter here; others are ignored. The topic is in a header, which is not
 * signed, so a body with a field of another topic was signed for another action.
 */
const REQUESTS = {
  "customers/data_request": anyRequest.extend({ orders_to_redact: foreign }),
  "customers/redact": anyRequest.extend({ orders_requested: foreign, data_request: foreign }),
  "shop/redact": anyRequest.extend({
    customer: foreign,
    orders_requested: foreign,
    orders_to_redact: foreign,
    data_request: foreign,
  }),
};
type PrivacyRequest = z.output<(typeof REQUESTS)[keyof typeof REQUESTS]>;

const given = (...values: readonly (string | null | undefined)[]): readonly string[] =>
  values.flatMap((value) => blankAsNull(value ?? "") ?? []);

const customerOf = ({
  customer: named,
  orders_requested: requested = [],
  orders_to_redact: redacted = [],
}: PrivacyRequest): CustomerIdentity =>
  identifyCustomer({
    ids: given(named?.id),
    emails: given(named?.email),
    orderIds: given(...requested, ...redacted),
  });

/**
 * Refuses a request that was processed before and that the platform no longer repeats. A signed body may be in a log, and
 * its signature does not expire. The erasure of one customer may be repeated.
 * @throws DomainError request_invalid
 */
const refuseReplay = async (
  { db, clock }: Context,
  { id, uninstalledAt }: Store,
  requested: (typeof TOPICS)[number],
  signature: string,
): Promise<void> => {
  const { firstProcessedAt, reinstalledSince } = await readPlatformRequest(db, id, signature);
  if (
    requested === "customers/data_request" &&
    firstProcessedAt !== null &&
    clock.now().getTime() - firstProcessedAt.getTime() > REPEATABLE_MS
  ) {
    throw invalidRequest(
      `this request was answered before, on ${firstProcessedAt.toISOString()}; it can be repeated for three days`,
    );
  }
  // All requests of a shop have the same body, so that for a store that was uninstalled again is no replay.
  if (requested === "shop/redact" && uninstalledAt === null && reinstalledSince) {
    throw invalidRequest(
      "the store was reinstalled since this request was processed; an operator must uninstall it first",
    );
  }
};

/** Receives the platform's privacy requests: what a customer's records say, and their erasure. */
export const platformWebhook = (context: Context, secrets: readonly string[]): Page => {
  const run = async (ctx: RequestContext): Promise<void> => {
    const body = await readRawBody(ctx, LIMIT_KIB);
    const signature = ctx.get("X-Shopify-Hmac-Sha256");
    if (!isSignedByPlatform(signature, { secrets, body })) {
      throw new HttpError("signature_invalid", "missing or invalid X-Shopify-Hmac-Sha256 header");
    }
    const requested = parseRequest(
      z.object({ "X-Shopify-Topic": topic }),
      { "X-Shopify-Topic": ctx.get("X-Shopify-Topic") },
      "field",
    )["X-Shopify-Topic"];
    const request = parseRequest(REQUESTS[requested], parseSignedJson(body), "field");
    const domain = normalizeDomain(request.shop_domain) ?? "";
    const store = (await listStoresNamed(context.db, "domain", [domain])).get(domain);
    ctx.set("Cache-Control", "no-store");
    if (store) {
      await refuseReplay(context, store, requested, signature);
    }
    const change = { ...context, actor: { kind: "platform", signature } as const };
    if (requested === "customers/data_request") {
      ctx.body = store
        ? await exportCustomer(change, store.id, customerOf(request))
        : { registrations: [], donations: [], has_more: false };
      return;
    }
    const erased = requested === "shop/redact" ? null : customerOf(request);
    ctx.body = {
      erased: store
        ? await forgetCustomer(change, store.id, erased)
        : { registrations: 0, donations: 0 },
    };
  };
  return { method: "post", path: "/webhooks/privacy", run };
};
