import { KINDS } from "../../modules/records/owner.rules.ts";
import type { Kind } from "../../modules/records/owner.rules.ts";
import { listRegistrationsByIds } from "../../modules/registrations/registrations.sql.ts";
import { refundAll } from "../../modules/registrations/refundRegistration.ts";
import type { RefundWriter } from "../../modules/registrations/refundRegistration.ts";
import { readRegistered, registerAll } from "../../modules/registrations/register.ts";
import type { RegistrationContext } from "../../modules/registrations/context.ts";
import type { Endpoint } from "../http/endpoint.ts";
import { batchEndpoint, IN_ONE } from "./batchEndpoint.ts";
import { isBlankId } from "./clientFields.ts";
import { KEY_ERROR, PROCESSOR_ERROR } from "./standaloneErrors.ts";
import {
  EXAMPLES,
  newRegistrationOf,
  ownerOf,
  presentRegistered,
  SCHEMAS,
  idRequiredMessage,
  presentRefunded,
  refundRequestOf,
} from "./registrationSchemas.ts";
import { KIND_NAMES } from "./standaloneKinds.ts";

const registerBatchEndpoint = (kind: Kind, context: RegistrationContext): Endpoint => {
  const names = KIND_NAMES[kind];
  return batchEndpoint({
    path: `${names.registerPath}/batch`,
    description: {
      operationId: `register${names.title}sInBatch`,
      tag: names.plural,
      title: `${names.title}Registration`,
      summary: `Register ${names.plural} ${IN_ONE}`,
      details:
        "Records the items in one transaction and in their order. Each item is the body of a single request, with an " +
        "idempotency_key of its own: a known one, or that of an earlier item, returns the original record.",
      errors: [KEY_ERROR],
      exampleRejection: "count: must be an integer of at least 1",
    },
    schemas: { item: SCHEMAS[kind].registerBody, result: SCHEMAS[kind].registerResponse },
    examples: EXAMPLES[kind].register,
    accept: (item, caller) => newRegistrationOf(caller, kind, item),
    write: (caller, items, isAtomic) =>
      registerAll(context, caller, ownerOf(caller, kind), items, isAtomic),
    present: async (caller, done) => {
      const registered = await readRegistered(context, ownerOf(caller, kind), done);
      return registered.map(({ registration, totals }) =>
        presentRegistered(kind, registration, totals),
      );
    },
  });
};

type EndpointContext = RegistrationContext & { readonly refunds: RefundWriter };

const refundBatchEndpoint = (
  kind: Kind,
  { db, clock, billing, refunds }: EndpointContext,
): Endpoint => {
  const names = KIND_NAMES[kind];
  return batchEndpoint({
    path: `${names.refundPath}/batch`,
    description: {
      operationId: `refund${names.title}sInBatch`,
      tag: names.plural,
      title: `${names.title}Refund`,
      summary: `Refund ${names.noun} registrations ${IN_ONE}`,
      details:
        "Refunds the items in one transaction and in their order. Each item is the body of a single request, with an " +
        "idempotency_key of its own. Items that refund the same registration add up.",
      errors: [KEY_ERROR, PROCESSOR_ERROR],
      exampleRejection: `failed to find ${names.noun} registration`,
    },
    schemas: { item: SCHEMAS[kind].refundBody, result: SCHEMAS[kind].refundResponse },
    examples: EXAMPLES[kind].refund,
    checkItem: (item) => (isBlankId(item) ? idRequiredMessage(kind) : null),
    accept: refundRequestOf,
    write: (caller, items, isAtomic) =>
      refundAll({ db, clock, billing, refunds }, ownerOf(caller, kind), items, {
        isAtomic,
      }),
    present: async (caller, done) => {
      const ids = new Set(done.map(({ registration }) => registration.id));
      const registrations = await listRegistrationsByIds(db, ownerOf(caller, kind), [...ids]);
      const byId = new Map(registrations.map((registration) => [registration.id, registration]));
      return done.map(({ registration: { id }, refundedCount, refundedSoFar, total }) => {
        const registration = byId.get(id);
        if (!registration) {
          throw new Error(`Registration ${id} was deleted in the meantime.`);
        }
        const then = { ...registration, refundedCount: refundedSoFar };
        return presentRefunded(kind, then, refundedCount, total);
      });
    },
  });
};

/** The endpoints that take many registrations or refunds in one request. */
export const batchEndpoints = (context: EndpointContext): readonly Endpoint[] =>
  KINDS.flatMap((kind) => [
    registerBatchEndpoint(kind, context),
    refundBatchEndpoint(kind, context),
  ]);
