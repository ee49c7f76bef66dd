import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { KINDS } from "../../../domain/accounts/accounts.ts";
import type { Clock } from "../../../domain/clock.ts";
import { getCertificateToken } from "../../../services/dashboard/getCertificateToken.ts";
import {
  certificateParameters,
  certificateUrlResponse,
} from "../../dashboard/certificateSchemas.ts";
import { keyEndpoint } from "../../http/endpoint.ts";
import type { Endpoint } from "../../http/endpoint.ts";
import { queryObject } from "../../http/parseRequest.ts";
import { KEY_ERROR } from "../errorResponses.ts";

const KIND_MUST_BE = `must be one of ${KINDS.join(", ")}`;

const query = queryObject({
  ...certificateParameters,
  kind: z.enum(KINDS, { error: KIND_MUST_BE }).optional().meta({
    description:
      "Of a tree and a bottle registration that were imported with the same id, this one.",
  }),
});

export const certificateEndpoint = ({
  db,
  clock,
  publicBaseUrl,
}: {
  readonly db: CommonQueryMethods;
  readonly clock: Clock;
  readonly publicBaseUrl: () => string;
}): Endpoint =>
  keyEndpoint({
    method: "get",
    path: "/certificate_url",
    description: {
      operationId: "readCertificateUrl",
      tag: "dashboard",
      summary: "Read the URL of a registration's public certificate",
      details:
        "The page needs no key. It tells apart what is registered and what is proven, and says if it was refunded. It " +
        "names no customer. Its URL cannot be guessed, and stays the same until the operator revokes it. The same data " +
        "are available as JSON (`<certificate_url>.json`).",
      errors: [
        {
          code: "request_invalid",
          when: "A query parameter is missing, unknown, repeated or malformed; the message names it.",
          example: "id: required",
        },
        KEY_ERROR,
        {
          code: "record_not_found",
          when: "The organization has no such registration in the key's mode.",
          example: "failed to find registration",
        },
      ],
    },
    schemas: { query, response: certificateUrlResponse },
    examples: {
      response: { certificate_url: "https://impact.example/certificate/3q2-7wQvS1mTzv9bX0aPdA" },
    },
    handle: async ({ caller: { accountId, mode }, query: { id, kind } }) => ({
      certificate_url: `${publicBaseUrl()}/certificate/${await getCertificateToken({ db, clock }, { accountId, mode }, id, kind ?? null)}`,
    }),
  });
