import type { CommonQueryMethods } from "slonik";
import type { Clock } from "../../../domain/clock.ts";
import { getCertificateToken } from "../../../services/dashboard/getCertificateToken.ts";
import {
  CERTIFICATE_URL,
  certificateQuery,
  presentCertificateUrl,
} from "../../dashboard/certificateSchemas.ts";
import { keyEndpoint } from "../../http/endpoint.ts";
import type { Endpoint } from "../../http/endpoint.ts";
import { KEY_ERROR } from "../errorResponses.ts";

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
      summary: "Read the URL of a record's public certificate",
      details: CERTIFICATE_URL.details,
      errors: [
        {
          code: "request_invalid",
          when: "A query parameter is missing, unknown, repeated or malformed; the message names it.",
          example: "id: required",
        },
        KEY_ERROR,
        {
          code: "record_not_found",
          when: "The organization has no such record in the key's mode.",
          example: "failed to find registration or donation",
        },
      ],
    },
    schemas: { query: certificateQuery, response: CERTIFICATE_URL.response },
    examples: { response: CERTIFICATE_URL.example },
    handle: async ({ caller: { accountId, mode }, query: { id, kind } }) =>
      presentCertificateUrl(
        publicBaseUrl(),
        await getCertificateToken({ db, clock }, { accountId, mode }, id, kind ?? null),
      ),
  });
