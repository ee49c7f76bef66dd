import type { CommonQueryMethods } from "slonik";
import type { Clock } from "../../../domain/clock.ts";
import { getCertificateToken } from "../../../services/dashboard/getCertificateToken.ts";
import {
  certificateParameters,
  certificateUrlResponse,
} from "../../dashboard/certificateSchemas.ts";
import { keyEndpoint } from "../../http/endpoint.ts";
import type { Endpoint } from "../../http/endpoint.ts";
import { queryObject } from "../../http/parseRequest.ts";
import { KEY_ERROR, QUERY_ERROR } from "../errors.ts";

const query = queryObject(certificateParameters);

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
    path: "/app/api/certificate_url",
    description: {
      operationId: "readCertificateUrl",
      tag: "impact",
      summary: "Read the URL of a record's public certificate",
      details:
        "For a customer or an order confirmation. The page needs no key, names no customer and no order, and has the " +
        "brand of the organization that owns the store. Its URL cannot be guessed.",
      errors: [
        QUERY_ERROR,
        KEY_ERROR,
        {
          code: "record_not_found",
          when: "The store has no such tree or plastic record in the key's mode.",
          example: "failed to find registration",
        },
      ],
    },
    schemas: { query, response: certificateUrlResponse },
    examples: {
      response: { certificate_url: "https://impact.example/certificate/3q2-7wQvS1mTzv9bX0aPdA" },
    },
    handle: async ({ caller: { accountId, mode }, query: { id } }) => ({
      certificate_url: `${publicBaseUrl()}/certificate/${await getCertificateToken({ db, clock }, { accountId, mode }, id, null)}`,
    }),
  });
