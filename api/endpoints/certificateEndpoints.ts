import { z } from "zod";
import { MAXIMUM_CERTIFIED_RECORDS } from "../../modules/dashboard/certificate.rules.ts";
import { RECORD_KINDS } from "../../modules/records/owner.rules.ts";
import type { AccountType } from "../../modules/records/owner.rules.ts";
import {
  getCertificateToken,
  getOrderCertificateToken,
} from "../../modules/dashboard/manageCertificates.ts";
import { recordId } from "../../modules/records/fields.rules.ts";
import { orderId } from "../../modules/stores/customers.rules.ts";
import { oneOf } from "../../runtime/describeIssues.rules.ts";
import type { AppContext } from "../context.ts";
import { keyEndpoint } from "../http/endpoint.ts";
import { responseObject, optional } from "../http/parseRequest.ts";

const certificateUrl = responseObject("CertificateUrl", {
  certificate_url: z.url().meta({
    description: "Stable until the operator revokes it; the next request returns another one.",
    examples: ["https://impact.example/certificate/9f86d081884c7d659a2feaa0c55ad015"],
  }),
});

const DETAILS =
  "The page needs no key. It distinguishes what is registered from what is proven, and says if it was refunded. It " +
  "names no customer and no order. Its URL cannot be guessed, and stays the same until the operator revokes it. The " +
  "same data are available as JSON (`<certificate_url>.json`).";

/** What the certificates of stores' records have instead of their own brand. */
const STORE_DETAILS = `${DETAILS} It has the brand of the organization that owns the store.`;

const urlOf = ({ publicBaseUrl }: AppContext, token: string) => ({
  certificate_url: `${publicBaseUrl()}/certificate/${token}`,
});

const recordQuery = z.object({
  id: recordId().meta({
    description: "The id of a registration or a donation.",
    examples: ["0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11"],
  }),
  kind: optional(
    oneOf(RECORD_KINDS),
    "Selects one of several records that were imported with the same id.",
  ),
});

export const certificateUrlEndpoint = (
  context: AppContext,
  path: string,
  { tag, accountType }: { readonly tag: string; readonly accountType: AccountType },
) =>
  keyEndpoint("get", path, {
    operationId: "readCertificateUrl",
    tag,
    summary: "Read the URL of a record's public certificate",
    details: accountType === "store" ? STORE_DETAILS : DETAILS,
    errors: ["record_not_found"],
    schemas: { query: recordQuery, response: certificateUrl },
    handle: async ({ owner, query: { id, kind = null } }) =>
      urlOf(context, await getCertificateToken(context, owner, id, kind)),
  });

const orderQuery = z.object({
  order_id: orderId().meta({
    // An empty parameter is one that is not given.
    minLength: 1,
    description: "With or without the leading `#`.",
    examples: ["#1001"],
  }),
});

export const orderCertificateUrlEndpoint = (context: AppContext) =>
  keyEndpoint("get", "/app/api/order_certificate_url", {
    operationId: "readOrderCertificateUrl",
    tag: "impact",
    summary: "Read the URL of an order's public certificate",
    details:
      `${STORE_DETAILS} It has the trees, plastic and donations that the order has when the URL is requested; request ` +
      "it again after records were added to the order. For an order with more than " +
      `${MAXIMUM_CERTIFIED_RECORDS} records, the request is a 400.`,
    errors: ["record_not_found"],
    schemas: { query: orderQuery, response: certificateUrl },
    handle: async ({ owner, query }) =>
      urlOf(context, await getOrderCertificateToken(context, owner, query.order_id)),
  });
