import type { Caller } from "../../modules/accounts/apiKeys.sql.ts";
import { KINDS } from "../../modules/records/owner.rules.ts";
import type { Kind, Owner } from "../../modules/records/owner.rules.ts";
import { findSuspension } from "../../modules/accounts/accounts.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { fractionalCountOf } from "../../modules/registrations/registrations.rules.ts";
import type { Totals } from "../../modules/registrations/registrations.rules.ts";
import {
  presentRegistration,
  REGISTRATION_COLUMNS,
} from "../../modules/registrations/presentRegistration.rules.ts";
import { listRegistrations } from "../../modules/registrations/listRegistrations.ts";
import { readRegistered } from "../../modules/registrations/createRegistrationWriter.ts";
import { presentSearched } from "../../runtime/presentPages.ts";
import type { RefundWriter } from "../../modules/registrations/refundRegistration.ts";
import { listEndpoint } from "../http/listEndpoints.ts";
import { LINK_HEADER, pagedList, rangeOfDays } from "../http/listPages.ts";
import type { AppContext } from "../context.ts";
import { attributionOf, isBlankId } from "./clientFields.ts";
import { KIND_NAMES, listQuery, SCHEMAS } from "./registrationSchemas.ts";
import { writeEndpoints } from "./writeEndpoints.ts";

type EndpointContext = AppContext & { readonly refunds: RefundWriter };

const ownerOf = ({ accountId, mode }: Caller, kind: Kind): Owner => ({ accountId, mode, kind });

const registerEndpoints = (kind: Kind, context: EndpointContext) => {
  const names = KIND_NAMES[kind];
  return writeEndpoints(names.registerPath, {
    tag: names.plural,
    operationId: `register${names.title}s`,
    summary: `Register ${names.plural}`,
    details:
      "Records the registration and responds immediately. Its usage is reported to the payment processor later. " +
      "A known idempotency_key returns the original record and bills nothing.",
    errors: ["subscription_inactive", "daily_limit_reached", "queue_full"],
    schemas: { item: SCHEMAS[kind].registerBody, result: SCHEMAS[kind].registerResponse },
    example: {
      count: 3,
      attribution: "newsletter",
      metadata: { campaign: "spring" },
      idempotency_key: "order-1001",
    },
    accept: (body, caller) => ({
      ...ownerOf(caller, kind),
      count: body.count,
      fractionalCount: fractionalCountOf(body.fractional_count, body.count, caller),
      idempotencyKey: body.idempotency_key ?? null,
      attribution: body.attribution ?? "",
      metadata: body.metadata ?? {},
      isLimited: caller.isLimited,
      // The organization may have counted fractions when it sent the request for the first time.
      refusal:
        body.fractional_count === undefined || caller.fractionalCounting
          ? findSuspension(caller.suspendingSubscription, kind)
          : invalidRequest(
              "fractional_count: fractional counting is not enabled for this organization",
            ),
    }),
    write: (caller, items, isAtomic) =>
      context.writer.write(ownerOf(caller, kind), items, isAtomic),
    present: async (caller, done) =>
      (await readRegistered(context, ownerOf(caller, kind), done)).map(
        ({ registration, totals }) => ({
          [names.totalField]: totals.all,
          [names.monthField]: totals.month,
          [names.detailsField]: [presentRegistration(registration)],
        }),
      ),
  });
};

const headOf = (kind: Kind, { all, month }: Totals): string => {
  const { totalField, monthField, detailsField } = KIND_NAMES[kind];
  return `{"${totalField}":${all},"${monthField}":${month},"${detailsField}":[`;
};

const listOf = (kind: Kind, context: EndpointContext) => {
  const names = KIND_NAMES[kind];
  return listEndpoint(context.streaming, names.registerPath, {
    operationId: `list${names.title}s`,
    tag: names.plural,
    summary: `List ${names.noun} registrations`,
    details:
      "Returns every registration of the organization in the key's mode that matches all filters, newest first, " +
      "in one response, or page by page with `first`. The totals cover all registrations, whatever the filters.",
    responseHeaders: LINK_HEADER,
    schemas: { query: listQuery, response: SCHEMAS[kind].registerResponse },
    exported: { name: names.plural, columns: REGISTRATION_COLUMNS },
    handle: ({ ctx, caller, query }) => {
      const owner = ownerOf(caller, kind);
      const filter = {
        id: query.id,
        attribution: attributionOf(query.attribution_key, query.without_attribution),
        metadata: query.metadata,
        ...rangeOfDays(query.created_at, query.end_at),
      };
      const part = { startingAfter: query.after ?? null, limit: query.first ?? null };
      const { pages, readTotals } = listRegistrations(context, owner, filter, part);
      return pagedList(ctx, context, {
        limit: part.limit,
        found: () => presentSearched(pages, presentRegistration),
        readHead: async () => headOf(kind, await readTotals()),
        linkOf: ({ id }) => ({ after: id }),
      });
    },
  });
};

const refundEndpoints = (kind: Kind, { refunds }: EndpointContext) => {
  const names = KIND_NAMES[kind];
  return writeEndpoints(names.refundPath, {
    tag: names.plural,
    operationId: `refund${names.title}s`,
    summary: `Refund a ${names.noun} registration, in full or in part`,
    details:
      "Subtracts units from the record, the totals and the reported usage, at the time of the registration. " +
      "Partial refunds add up, so a partial refund should carry an idempotency_key: a known one returns the " +
      "original refund and refunds nothing.",
    errors: ["outside_billing_cycle", "record_not_found"],
    schemas: { item: SCHEMAS[kind].refundBody, result: SCHEMAS[kind].refundResponse },
    example: {
      id: "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11",
      reason: "order cancelled",
      idempotency_key: "return-1001-1",
    },
    checkItem: (item) => (isBlankId(item) ? `${names.noun} id is required` : null),
    accept: (body) => ({
      id: body.id,
      count: body.count ?? null,
      reason: body.reason ?? null,
      idempotencyKey: body.idempotency_key ?? null,
    }),
    write: (caller, items, isAtomic) => refunds.refundAll(ownerOf(caller, kind), items, isAtomic),
    present: async (_caller, done) =>
      (await refunds.readRefunded(done)).map((refund) => ({
        [names.refundedField]: refund.refundedCount,
        [names.totalField]: refund.total,
        refund_details: [presentRegistration(refund.registration)],
        refund_id: refund.refundId,
      })),
  });
};

export const registrationEndpoints = (context: EndpointContext) =>
  KINDS.flatMap((kind) =>
    registerEndpoints(kind, context).concat(listOf(kind, context), refundEndpoints(kind, context)),
  );
